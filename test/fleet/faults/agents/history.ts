/**
 * The history of a run: one JSON line for each request, on disk before it is sent, and one for each answer, on disk as soon as it has
 * arrived. Each process appends to its own file, which no fault touches. A killed process leaves calls without an end; their outcome is
 * open.
 */
import { closeSync, fdatasync, openSync, readdirSync, readFileSync, write } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { FailureClass } from "../../../../shared/protocol/exit-report.ts";
import type { CommandOp } from "../../../../shared/protocol/operations.ts";

export type ReadOp = "get" | "latest" | "history" | "task";

/** The beginning of a call. Times are microseconds of the machine's monotonic clock, which all processes share. */
export interface CallLine {
  readonly line: "call";
  readonly call: string;
  readonly at: number;
  readonly op: CommandOp | ReadOp;
  readonly agent: string;
  readonly task: string;
  readonly command_id?: string;
  /** The kind of copy; absent for the agent's own call. */
  readonly copy?: "duplicate" | "late" | "reordered" | "queued_twice" | "resolving";
  readonly fence?: number;
  readonly expected_version?: number;
  /** The checkpoint of a `get`. */
  readonly checkpoint_id?: string;
  readonly limit?: number;
  /** The handoff that the command requests, accepts or cancels, if it names one. */
  readonly handoff?: string;
  /** The number of the offer that an `acknowledge` accepts. */
  readonly attempt?: number;
}

/** The exact bytes of a command, written before they are sent for the first time. */
export interface SentLine {
  readonly line: "sent";
  readonly command_id: string;
  readonly subject: string;
  readonly body: string;
}

/** The answer to a committed command. */
export interface CommittedFacts {
  readonly checkpoint_id: string | null;
  readonly version: number | null;
  readonly seq: number | null;
  readonly hash: string | null;
  /** The fence in the answer to `take`, `release` and `acknowledge`. */
  readonly fence: number | null;
  /** The handoff that the command requested, accepted or cancelled. */
  readonly handoff: string | null;
  readonly position: string;
}

/** A checkpoint as a reader received it; `entry` is the number of the audit entry of this version. */
export interface SeenVersion {
  readonly checkpoint_id: string;
  readonly version: number;
  readonly hash: string;
  readonly entry: number;
}

/** The result of a read: the versions on its page or the head of the task. Without a result there are no versions and head is null. */
export interface Seen {
  readonly versions?: readonly SeenVersion[];
  /** The ids of the removed checkpoints on a page of the history, or of the one that was to be read. */
  readonly removed?: readonly string[];
  readonly head?: { readonly audit_seq: number; readonly audit_hash: string; readonly fence: number } | null;
}

export interface DoneLine {
  readonly line: "done";
  readonly call: string;
  readonly at: number;
  /** `refused`: an error that guarantees that nothing was applied. `unknown`: TIMEOUT, or an error that leaves the outcome open. */
  readonly outcome: "committed" | "queued" | "spooled" | "refused" | "unknown" | "read";
  readonly code?: string;
  readonly committed?: CommittedFacts;
  readonly seen?: Seen;
}

/** One stage of a worker's work on a task. `at` is in milliseconds of the wall clock, as in the audit trail. */
export interface LifecycleLine {
  readonly line: "lifecycle";
  readonly at: number;
  readonly agent: string;
  readonly task: string;
  readonly fence: number;
  readonly what: "begins" | "fails" | "hangs" | "waits" | "completes";
  /** The checkpoint from which the worker continues, with the hash of the served content. */
  readonly from?: { readonly checkpoint_id: string; readonly version: number; readonly hash: string };
  /** The reported failure class. */
  readonly class?: FailureClass;
}

/** A change of the stored bytes of the current version of a checkpoint, recorded before it. `at` is of the monotonic clock, `wall` of the wall clock. */
export interface DamageLine {
  readonly line: "damage";
  readonly at: number;
  readonly wall: number;
  readonly task: string;
  readonly checkpoint_id: string;
  readonly version: number;
}

export type Line = CallLine | SentLine | DoneLine | LifecycleLine | DamageLine;

/** The microseconds of CLOCK_MONOTONIC: comparable between the processes of one machine, and independent of the wall clock. */
export function instant(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

const writeFd = promisify(write);
const syncFd = promisify(fdatasync);

/** Resolves when the line is kept, also beyond the end of its process. */
export interface HistorySink {
  append(line: Line): Promise<void>;
}

export class HistoryWriter implements HistorySink {
  readonly #fd: number;
  #waiting: string[] = [];
  #flushing: Promise<void> | undefined;

  /** Throws when the file exists, because each process has its own file. */
  constructor(path: string) {
    this.#fd = openSync(path, "ax");
  }

  /** Resolves when the line is on disk. Concurrent lines share one sync. */
  append(line: Line): Promise<void> {
    this.#waiting.push(`${JSON.stringify(line)}\n`);
    // The lines of all callers are in the buffer, so the next flush writes them.
    this.#flushing = (this.#flushing ?? Promise.resolve()).then(() => this.#flush());
    return this.#flushing;
  }

  async #flush(): Promise<void> {
    if (this.#waiting.length === 0) return;
    const text = this.#waiting.join("");
    this.#waiting = [];
    const bytes = Buffer.from(text);
    for (let at = 0; at < bytes.length; ) {
      const { bytesWritten } = await writeFd(this.#fd, bytes, at);
      at += bytesWritten;
    }
    await syncFd(this.#fd);
  }

  async close(): Promise<void> {
    await this.#flushing;
    closeSync(this.#fd);
  }
}

/** Reads every file of the folder. The last line of a killed process may be incomplete; nothing depended on it. */
export function readHistory(folder: string): Line[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) => {
      const lines = readFileSync(join(folder, name), "utf8").split("\n");
      const last = lines.pop();
      if (last !== "" && last !== undefined && isComplete(last)) lines.push(last);
      return lines.map((line) => JSON.parse(line) as Line);
    });
}

function isComplete(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

/** A call with its end; `end` is infinite if no end was recorded. */
export interface CallAttempt extends Omit<CallLine, "line" | "at"> {
  readonly begin: number;
  readonly end: number;
  readonly outcome: DoneLine["outcome"];
  readonly code?: string;
  readonly committed?: CommittedFacts;
  readonly seen?: Seen;
}

export interface History {
  readonly attempts: readonly CallAttempt[];
  /** The sent bytes of each command, by command id. */
  readonly sent: ReadonlyMap<string, SentLine>;
  readonly lifecycle: readonly LifecycleLine[];
  readonly damages: readonly DamageLine[];
}

export function pairedHistory(lines: readonly Line[]): History {
  const ends = new Map<string, DoneLine>();
  const sent = new Map<string, SentLine>();
  for (const line of lines) {
    if (line.line === "done") ends.set(line.call, line);
    if (line.line === "sent") sent.set(line.command_id, line);
  }
  const attempts = lines
    .filter((line) => line.line === "call")
    .map(({ line: _line, at, ...call }): CallAttempt => {
      const done = ends.get(call.call);
      // The process was killed or gave up before it sent the command, so the command must not be applied.
      const isOpen = done === undefined || done.outcome === "unknown";
      const isUnsent = isOpen && call.command_id !== undefined && !sent.has(call.command_id);
      if (isUnsent)
        return { ...call, begin: at, end: done?.at ?? at, outcome: "refused", code: "never sent" };
      if (done === undefined)
        return { ...call, begin: at, end: Number.POSITIVE_INFINITY, outcome: "unknown" };
      const { outcome, code, committed, seen } = done;
      return {
        ...call,
        begin: at,
        end: done.at,
        outcome,
        ...(code !== undefined && { code }),
        ...(committed !== undefined && { committed }),
        ...(seen !== undefined && { seen }),
      };
    });
  return {
    attempts: attempts.sort((a, b) => a.begin - b.begin),
    sent,
    lifecycle: lines.filter((line) => line.line === "lifecycle"),
    damages: lines.filter((line) => line.line === "damage"),
  };
}
