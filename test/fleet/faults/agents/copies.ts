/**
 * Copies of commands, which their agents did not send: at once, late or in another order, always with the original bytes. The answers to
 * the copies belong to the history.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bus, BusError, type Outgoing } from "../../../../shared/bus/bus.ts";
import type { CommandAnswer, ErrorAnswer } from "../../../../shared/protocol/answers.ts";
import type { CheckpointInput } from "../../../../shared/protocol/checkpoint.ts";
import type { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import type { CommandOp } from "../../../../shared/protocol/operations.ts";
import { parseCommandSubject } from "../../../../shared/protocol/subjects.ts";
import { type CallLine, type CommittedFacts, type DoneLine, type HistorySink, instant } from "./history.ts";

/** The facts of an answer that must be equal in every repetition of it. */
export function committedFacts(answer: Readonly<Record<string, unknown>>): CommittedFacts {
  const fact = <T>(name: string): T | null => (answer[name] ?? null) as T | null;
  // The answer to a handoff command names the checkpoint of the handoff, which the command did not write.
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

/** The outcome of a command by its raw answer. */
export function endingOf(answer: CommandAnswer | ErrorAnswer | { status: "queued" }): Ending {
  if (answer.status === "committed")
    return { outcome: "committed", committed: committedFacts(answer as never) };
  if (answer.status === "queued") return { outcome: "queued" };
  const { code } = (answer as { error: { code: keyof typeof ERROR_TABLE } }).error;
  return { outcome: code === "TIMEOUT" ? "unknown" : "refused", code };
}

interface CopyCall {
  readonly call: string;
  readonly copy: Copy;
  /** The subject of the command, also for a copy in the queue. */
  readonly subject: string;
  readonly body: string;
}

interface SentBody extends Partial<CallLine> {
  readonly handoff_id?: string;
  readonly checkpoint?: CheckpointInput;
}

export function callLine({ call, copy, subject, body }: CopyCall): CallLine {
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

/** Sends the bytes once and records the call. */
export async function sendCopy(bus: Bus, history: HistorySink, copy: CopyCall): Promise<Ending> {
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

/** The shares of all commands that are copied, by kind of copy. */
const SHARES = { duplicate: 0.05, late: 0.04, reordered: 0.06, queued_twice: 0.2 } as const;
const LATE_MS = 5_000;
const REORDERED_TOGETHER = 6;

const nothing = (): void => {};

function failed(error: unknown): Ending {
  return { outcome: "unknown", code: error instanceof BusError ? error.kind : String(error) };
}

export interface CopiesContext {
  readonly history: HistorySink;
  readonly random: () => number;
  readonly nextCall: () => string;
}

type Copy = NonNullable<CallLine["copy"]>;

/** A command as it was sent to a writer, with its connection. */
interface SentCommand {
  readonly bus: Bus;
  readonly subject: string;
  readonly body: string;
}

export class Copies {
  readonly #context: CopiesContext;
  readonly #inFlight = new Set<Promise<unknown>>();
  readonly #ending = new AbortController();
  #pool: SentCommand[] = [];

  constructor(context: CopiesContext) {
    this.#context = context;
  }

  /** Called for each command when it is sent for the first time. */
  onSent(bus: Bus, subject: string, body: string): void {
    const { random } = this.#context;
    const dice = random();
    if (dice < SHARES.duplicate) this.#send("duplicate", { bus, subject, body }, random() * 20);
    else if (dice < SHARES.duplicate + SHARES.late)
      this.#send("late", { bus, subject, body }, random() * LATE_MS);
    else if (dice < SHARES.duplicate + SHARES.late + SHARES.reordered) this.#reorder({ bus, subject, body });
  }

  /** Called for each queued command. Its second message has another id, because the queue would otherwise drop it. */
  onQueued(
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
        .publishDurable(subject, out, { messageId: `${messageId}-copy`, timeoutMs: COPY_TIMEOUT_MS })
        .then((): Ending => ({ outcome: "queued" }), failed);
      await history.append({ line: "done", call, at: instant(), ...ending });
    });
  }

  /** Sends all delayed copies at once and waits for their answers. */
  async settled(): Promise<void> {
    this.#ending.abort();
    while (this.#inFlight.size > 0) await Promise.allSettled(this.#inFlight);
  }

  #reorder(command: SentCommand): void {
    this.#pool.push(command);
    if (this.#pool.length < REORDERED_TOGETHER) return;
    const { random } = this.#context;
    for (const one of this.#pool.sort(() => random() - 0.5)) this.#send("reordered", one, 0);
    this.#pool = [];
  }

  #send(copy: Copy, { bus, subject, body }: SentCommand, afterMs: number): void {
    const { history, nextCall } = this.#context;
    this.#after(afterMs, () => sendCopy(bus, history, { call: nextCall(), copy, subject, body }));
  }

  #after(ms: number, run: () => Promise<unknown>): void {
    const sending = sleep(ms, undefined, { signal: this.#ending.signal }).catch(nothing).then(run);
    this.#inFlight.add(sending);
    void sending.catch(nothing).finally(() => this.#inFlight.delete(sending));
  }
}
