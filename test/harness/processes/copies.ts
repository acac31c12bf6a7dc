// Copies of commands: the same bytes on the same subject, sent again and again by whoever likes, over a plain NATS connection, so that
// nothing of the SDK stands between a copy and the fleet.

import { setTimeout as sleep } from "node:timers/promises";
import { connect, type NatsConnection } from "@nats-io/transport-node";

export interface Command {
  readonly subject: string;
  readonly body: string;
}

export interface Answer {
  readonly status: string;
  readonly command_id?: string;
  readonly replayed?: boolean;
  readonly error?: { readonly code: string };
}

/** Which command is sent, by how many lanes at once, and how often by each. */
export interface Batch {
  readonly commands: readonly Command[];
  readonly lanes: number;
  readonly times: number;
}

const ATTEMPT_MS = 2_000;
const PAUSE_MS = 20;
const SETTLED_MS = 90_000;

/** Reconnects for ever, quickly. */
export function connectPlainly(url: string): Promise<NatsConnection> {
  return connect({ servers: url, maxReconnectAttempts: -1, reconnectTimeWait: 50, reconnectJitter: 50 });
}

/** Sends one copy until its answer settles it; no answer, no responder, UNAVAILABLE and TIMEOUT leave it open. */
export async function settle(nats: NatsConnection, { subject, body }: Command): Promise<Answer> {
  const end = performance.now() + SETTLED_MS;
  for (;;) {
    const answer = await nats
      .request(subject, body, { timeout: ATTEMPT_MS })
      .then((message) => message.json<Answer>())
      .catch(() => null);
    const code = answer?.error?.code ?? "";
    if (answer !== null && code !== "UNAVAILABLE" && code !== "TIMEOUT") return answer;
    if (performance.now() > end) throw new Error(`a copy was never answered: ${subject}`);
    await sleep(PAUSE_MS);
  }
}

/** Sends every command `lanes` × `times` times; tells each answer with the place of its command. */
export async function sendCopies(
  nats: NatsConnection,
  { commands, lanes, times }: Batch,
  told: (place: number, answer: Answer) => void,
): Promise<void> {
  const lane = async (command: Command, place: number): Promise<void> => {
    for (let i = 0; i < times; i += 1) told(place, await settle(nats, command));
  };
  await Promise.all(
    commands.flatMap((command, place) => Array.from({ length: lanes }, () => lane(command, place))),
  );
}
