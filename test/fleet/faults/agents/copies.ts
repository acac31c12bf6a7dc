/**
 * Commands sent more often than their agents wish: at once, late, or in another order, always with the bytes of the first time. What the
 * copies are answered is history, too.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bus, BusError, type Outgoing } from "../../../../shared/bus/bus.ts";
import type { CommandAnswer, ErrorAnswer } from "../../../../shared/protocol/answers.ts";
import type { CheckpointInput } from "../../../../shared/protocol/checkpoint.ts";
import type { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { type CommandOp, parseCommandSubject } from "../../../../shared/protocol/subjects.ts";
import { type CallLine, type CommittedFacts, type DoneLine, type HistoryWriter, instant } from "./history.ts";

/** The facts of an answer that must be the same whenever it is given. */
export function committedFacts(answer: Readonly<Record<string, unknown>>): CommittedFacts {
  const fact = <T>(name: string): T | null => (answer[name] ?? null) as T | null;
  // Handoffs are answered with the checkpoint that they are about, which is not one that was written.
  const isWritten = answer.version !== undefined;
  return {
    checkpoint_id: isWritten ? fact("checkpoint_id") : null,
    version: fact("version"),
    seq: fact("seq"),
    hash: fact("hash"),
    fence: fact("fence"),
    handoff: fact("handoff_id"),
    position: String(answer.position),
  };
}

type Ending = Omit<DoneLine, "line" | "call" | "at">;

/** What a raw answer says about its command. */
export function endingOf(answer: CommandAnswer | ErrorAnswer | { status: "queued" }): Ending {
  if (answer.status === "committed")
    return { outcome: "committed", committed: committedFacts(answer as never) };
  if (answer.status === "queued") return { outcome: "queued" };
  const { code } = (answer as { error: { code: keyof typeof ERROR_TABLE } }).error;
  return { outcome: code === "TIMEOUT" ? "unknown" : "refused", code };
}

interface CopyOf {
  readonly call: string;
  readonly copy: Copy;
  /** The command's, also when the copy goes into the queue. */
  readonly subject: string;
  readonly body: string;
}

interface SentBody extends Partial<CallLine> {
  readonly handoff_id?: string;
  readonly checkpoint?: CheckpointInput;
}

export function callLine({ call, copy, subject, body }: CopyOf): CallLine {
  const { agent, task, op } = parseCommandSubject(subject);
  const { command_id, fence, expected_version, handoff_id, checkpoint } = JSON.parse(body) as SentBody;
  const opens = op === "handoff" || checkpoint?.execution_state.phase === "handoff";
  const handoff = opens ? command_id : handoff_id;
  return {
    ...{ line: "call", call, at: instant(), op: op as CommandOp, agent, task, copy },
    ...(handoff !== undefined && { handoff }),
    ...(command_id !== undefined && { command_id }),
    ...(fence !== undefined && { fence }),
    ...(expected_version !== undefined && { expected_version }),
  };
}

/** Sends the bytes once and records it. */
export async function sendCopy(bus: Bus, history: HistoryWriter, copy: CopyOf): Promise<Ending> {
  await history.append(callLine(copy));
  const ending = await ask(bus, copy.subject, copy.body);
  await history.append({ line: "done", call: copy.call, at: instant(), ...ending });
  return ending;
}

const COPY_TIMEOUT_MS = 3_000;

async function ask(bus: Bus, subject: string, body: string): Promise<Ending> {
  try {
    const answer = await bus.request(subject, { body: Buffer.from(body) }, { timeoutMs: COPY_TIMEOUT_MS });
    return endingOf(JSON.parse(Buffer.from(answer.body).toString()));
  } catch (error) {
    return failed(error);
  }
}

/** Shares of all commands that are sent again, by how. */
const SHARES = { duplicate: 0.05, late: 0.04, reordered: 0.06, queued_twice: 0.2 } as const;
const LATE_MS = 5_000;
const REORDERED_AT_ONCE = 6;

const nothing = (): void => {};

function failed(error: unknown): Ending {
  return { outcome: "unknown", code: error instanceof BusError ? error.kind : String(error) };
}

export interface CopiesContext {
  readonly history: HistoryWriter;
  readonly random: () => number;
  readonly nextCall: () => string;
}

type Copy = NonNullable<CallLine["copy"]>;

/** A command as it went to a writer, and the connection to send it again on. */
interface Recorded {
  readonly bus: Bus;
  readonly subject: string;
  readonly body: string;
}

export class Copies {
  readonly #context: CopiesContext;
  readonly #underway = new Set<Promise<unknown>>();
  readonly #ending = new AbortController();
  #pool: Recorded[] = [];

  constructor(context: CopiesContext) {
    this.#context = context;
  }

  /** Told of each command when it is sent for the first time. */
  consider(bus: Bus, subject: string, body: string): void {
    const { random } = this.#context;
    const dice = random();
    if (dice < SHARES.duplicate) this.#send("duplicate", { bus, subject, body }, random() * 20);
    else if (dice < SHARES.duplicate + SHARES.late)
      this.#send("late", { bus, subject, body }, random() * LATE_MS);
    else if (dice < SHARES.duplicate + SHARES.late + SHARES.reordered) this.#reorder({ bus, subject, body });
  }

  /** Told of each command that the queue has taken. A second message of it has another id, or the queue would not keep both. */
  considerQueued(
    bus: Bus,
    command: string,
    {
      subject,
      out,
      messageId,
    }: { readonly subject: string; readonly out: Outgoing; readonly messageId: string },
  ): void {
    const { random, history, nextCall } = this.#context;
    if (random() >= SHARES.queued_twice) return;
    this.#after(random() * LATE_MS, async () => {
      const call = nextCall();
      const body = Buffer.from(out.body).toString();
      await history.append(callLine({ call, copy: "queued_twice", subject: command, body }));
      const ending = await bus
        .publishDurable(subject, out, { messageId: `${messageId}-again`, timeoutMs: COPY_TIMEOUT_MS })
        .then((): Ending => ({ outcome: "queued" }), failed);
      await history.append({ line: "done", call, at: instant(), ...ending });
    });
  }

  /** Sends at once what was to be sent later, and waits for every copy's answer. */
  async settled(): Promise<void> {
    this.#ending.abort();
    while (this.#underway.size > 0) await Promise.allSettled(this.#underway);
  }

  #reorder(command: Recorded): void {
    this.#pool.push(command);
    if (this.#pool.length < REORDERED_AT_ONCE) return;
    const { random } = this.#context;
    for (const one of this.#pool.sort(() => random() - 0.5)) this.#send("reordered", one, 0);
    this.#pool = [];
  }

  #send(copy: Copy, { bus, subject, body }: Recorded, afterMs: number): void {
    const { history, nextCall } = this.#context;
    this.#after(afterMs, () => sendCopy(bus, history, { call: nextCall(), copy, subject, body }));
  }

  #after(ms: number, run: () => Promise<unknown>): void {
    const sending = sleep(ms, undefined, { signal: this.#ending.signal }).catch(nothing).then(run);
    this.#underway.add(sending);
    void sending.catch(nothing).finally(() => this.#underway.delete(sending));
  }
}
