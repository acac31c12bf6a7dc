// Copies of commands: the same bytes on the same subject, sent repeatedly by several senders over a plain NATS connection, without
// the SDK between a copy and the fleet.

import { setTimeout as sleep } from "node:timers/promises";
import { connect, createInbox, type NatsConnection } from "@nats-io/transport-node";
import { callerOf, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { administratorAuthenticator } from "../credentials.ts";

export interface RawCommand {
  readonly subject: string;
  readonly body: string;
}

export interface RawAnswer {
  readonly status: string;
  readonly command_id?: string;
  readonly replayed?: boolean;
  readonly error?: { readonly code: string };
}

export interface CopyBatch {
  readonly commands: readonly RawCommand[];
  /** The number of concurrent senders of each command. */
  readonly senders: number;
  /** The number of copies from each sender. */
  readonly times: number;
}

const ATTEMPT_MS = 2_000;
const PAUSE_MS = 20;
const SETTLED_MS = 90_000;

/** A connection that reconnects quickly and without a limit. */
export async function connectNats(url: string, home: string): Promise<NatsConnection> {
  return connect({
    servers: url,
    authenticator: await administratorAuthenticator(home),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 50,
    reconnectJitter: 50,
  });
}

function inboxFor(subject: string): string {
  const { tenant, caller } = callerOf(subject) ?? { tenant: "none", caller: "none" };
  return createInbox(SUBJECTS.inboxPrefix(tenant, caller));
}

/** Sends one copy until its result is known; it is unknown without an answer or a responder, and after UNAVAILABLE or TIMEOUT. */
export async function sendUntilSettled(
  nats: NatsConnection,
  { subject, body }: RawCommand,
): Promise<RawAnswer> {
  const end = performance.now() + SETTLED_MS;
  for (;;) {
    const answer = await nats
      .request(subject, body, { timeout: ATTEMPT_MS, noMux: true, reply: inboxFor(subject) })
      .then((message) => message.json<RawAnswer>())
      .catch(() => null);
    const code = answer?.error?.code ?? "";
    if (answer !== null && code !== "UNAVAILABLE" && code !== "TIMEOUT") return answer;
    if (performance.now() > end) throw new Error(`a copy was never answered: ${subject}`);
    await sleep(PAUSE_MS);
  }
}

/** Sends every command `senders` × `times` times; `onAnswer` receives each answer with the index of its command. */
export async function sendCopies(
  nats: NatsConnection,
  { commands, senders, times }: CopyBatch,
  onAnswer: (index: number, answer: RawAnswer) => void,
): Promise<void> {
  const sender = async (command: RawCommand, index: number): Promise<void> => {
    for (let i = 0; i < times; i += 1) onAnswer(index, await sendUntilSettled(nats, command));
  };
  await Promise.all(
    commands.flatMap((command, index) => Array.from({ length: senders }, () => sender(command, index))),
  );
}
