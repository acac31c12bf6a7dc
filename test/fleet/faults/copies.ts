/**
 * Commands sent more often than their agents wish: at once, late, or in another order, always with the bytes of the first time. What the
 * copies are answered is history, too.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bus, BusError } from "../../../shared/bus/bus.ts";
import type { CommandAnswer } from "../../../shared/protocol/answers.ts";
import type { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import type { CommandOp } from "../../../shared/protocol/subjects.ts";
import { type CallLine, type CommittedFacts, type DoneLine, type HistoryWriter, instant } from "./history.ts";

/** The facts of an answer that must be the same whenever it is given. */
export function committedFacts(answer: Readonly<Record<string, unknown>>): CommittedFacts {
  const fact = <T>(name: string): T | null => (answer[name] ?? null) as T | null;
  return {
    checkpoint_id: fact("checkpoint_id"),
    version: fact("version"),
    seq: fact("seq"),
    hash: fact("hash"),
    fence: fact("fence"),
    position: String(answer.position),
  };
}

type Ending = Omit<DoneLine, "line" | "call" | "at">;

/** What a raw answer says about its command. */
export function endingOf(answer: CommandAnswer | { status: "queued" }): Ending {
  if (answer.status === "committed")
    return { outcome: "committed", committed: committedFacts(answer as never) };
  if (answer.status === "queued") return { outcome: "queued" };
  const { code } = (answer as { error: { code: keyof typeof ERROR_TABLE } }).error;
  return { outcome: code === "TIMEOUT" ? "unknown" : "refused", code };
}

/** Sends the bytes once and records it. */
export async function sendCopy(
  bus: Bus,
  history: HistoryWriter,
  command: {
    readonly call: string;
    readonly copy: NonNullable<CallLine["copy"]>;
    readonly subject: string;
    readonly body: string;
  },
): Promise<Ending> {
  const { call, copy, subject, body } = command;
  const [, , , agent, task, op] = subject.split(".");
  const { command_id, fence, expected_version } = JSON.parse(body) as Pick<
    CallLine,
    "command_id" | "fence" | "expected_version"
  >;
  await history.append({
    line: "call",
    call,
    at: instant(),
    op: op as CommandOp,
    agent: agent!,
    task: task!,
    copy,
    ...(command_id !== undefined && { command_id }),
    ...(fence !== undefined && { fence }),
    ...(expected_version !== undefined && { expected_version }),
  });
  const ending = await ask(bus, subject, body);
  await history.append({ line: "done", call, at: instant(), ...ending });
  return ending;
}

const COPY_TIMEOUT_MS = 3_000;

async function ask(bus: Bus, subject: string, body: string): Promise<Ending> {
  try {
    const answer = await bus.request(subject, { body: Buffer.from(body) }, { timeoutMs: COPY_TIMEOUT_MS });
    return endingOf(JSON.parse(Buffer.from(answer.body).toString()));
  } catch (error) {
    return { outcome: "unknown", code: error instanceof BusError ? error.kind : String(error) };
  }
}

/** Shares of all commands that are sent again, by how. */
const SHARES = { duplicate: 0.05, late: 0.04, reordered: 0.06 } as const;
const LATE_MS = 5_000;
const REORDERED_AT_ONCE = 6;

const nothing = (): void => {};

export interface CopiesContext {
  readonly bus: Bus;
  readonly history: HistoryWriter;
  readonly random: () => number;
  readonly nextCall: () => string;
}

export class Copies {
  readonly #context: CopiesContext;
  readonly #underway = new Set<Promise<unknown>>();
  readonly #ending = new AbortController();
  #pool: { subject: string; body: string }[] = [];

  constructor(context: CopiesContext) {
    this.#context = context;
  }

  /** Told of each command when it is sent for the first time. */
  consider(subject: string, body: string): void {
    const { random } = this.#context;
    const dice = random();
    if (dice < SHARES.duplicate) this.#send("duplicate", subject, body, random() * 20);
    else if (dice < SHARES.duplicate + SHARES.late) this.#send("late", subject, body, random() * LATE_MS);
    else if (dice < SHARES.duplicate + SHARES.late + SHARES.reordered) this.#reorder(subject, body);
  }

  /** Sends at once what was to be sent later, and waits for every copy's answer. */
  async settled(): Promise<void> {
    this.#ending.abort();
    while (this.#underway.size > 0) await Promise.allSettled(this.#underway);
  }

  #reorder(subject: string, body: string): void {
    this.#pool.push({ subject, body });
    if (this.#pool.length < REORDERED_AT_ONCE) return;
    const { random } = this.#context;
    for (const one of this.#pool.sort(() => random() - 0.5))
      this.#send("reordered", one.subject, one.body, 0);
    this.#pool = [];
  }

  #send(copy: NonNullable<CallLine["copy"]>, subject: string, body: string, afterMs: number): void {
    const { bus, history, nextCall } = this.#context;
    const sending = sleep(afterMs, undefined, { signal: this.#ending.signal })
      .catch(nothing)
      .then(() => sendCopy(bus, history, { call: nextCall(), copy, subject, body }));
    this.#underway.add(sending);
    void sending.finally(() => this.#underway.delete(sending));
  }
}
