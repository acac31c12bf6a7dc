/**
 * The history of a run: what was asked and what came back, one JSON line each, on disk before the request leaves and as soon as the
 * answer is there. Each process writes a file of its own, outside everything that the faults touch, and only ever appends; a
 * process that is killed leaves calls without an end, which is what it knew: their outcome is open.
 */
import { closeSync, fdatasync, openSync, readdirSync, readFileSync, write } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { FailureClass } from "../../../../shared/protocol/exit-report.ts";
import type { CommandOp } from "../../../../shared/protocol/subjects.ts";

export type ReadOp = "get" | "latest" | "history" | "task";

/** A call begins. Times are microseconds of the machine's monotonic clock, which all processes share. */
export interface CallLine {
  readonly line: "call";
  readonly call: string;
  readonly at: number;
  readonly op: CommandOp | ReadOp;
  readonly agent: string;
  readonly task: string;
  readonly command_id?: string;
  /** Absent: the agent's own call. Else the same bytes sent once more by somebody. */
  readonly copy?: "duplicate" | "late" | "reordered" | "queued_twice" | "resolving";
  readonly fence?: number;
  readonly expected_version?: number;
  /** What is read, where it is not the task. */
  readonly checkpoint_id?: string;
  readonly limit?: number;
  /** The handoff that the command asks for, accepts or takes back, where it names one. */
  readonly handoff?: string;
  /** Of an `acknowledge`: the number of the offer that was in hand. */
  readonly attempt?: number;
}

/** The exact bytes of a command, written before they are sent for the first time. */
export interface SentLine {
  readonly line: "sent";
  readonly command_id: string;
  readonly subject: string;
  readonly body: string;
}

/** What a committed command was answered with. */
export interface CommittedFacts {
  readonly checkpoint_id: string | null;
  readonly version: number | null;
  readonly seq: number | null;
  readonly hash: string | null;
  /** Of `take`, `release` and `acknowledge`. */
  readonly fence: number | null;
  /** The handoff that it opened, accepted or took back. */
  readonly handoff: string | null;
  readonly position: string;
}

/** A checkpoint as a reader saw it; `entry` is the audit entry that made this version. */
export interface SeenVersion {
  readonly checkpoint_id: string;
  readonly version: number;
  readonly hash: string;
  readonly entry: number;
}

/** What a read returned: the versions on its page, or the head of the task. Nothing found: no versions, head null. */
export interface Seen {
  readonly versions?: readonly SeenVersion[];
  readonly head?: { readonly audit_seq: number; readonly audit_hash: string; readonly fence: number } | null;
}

export interface DoneLine {
  readonly line: "done";
  readonly call: string;
  readonly at: number;
  /** `refused`: an error that says nothing happened. `unknown`: TIMEOUT, or a failure that leaves it open. */
  readonly outcome: "committed" | "queued" | "spooled" | "refused" | "unknown" | "read";
  readonly code?: string;
  readonly committed?: CommittedFacts;
  readonly seen?: Seen;
}

/** What a worker goes through. `at`: milliseconds of the wall clock, as the audit trail has it. */
export interface LifeLine {
  readonly line: "life";
  readonly at: number;
  readonly agent: string;
  readonly task: string;
  readonly fence: number;
  readonly what: "begins" | "fails" | "hangs" | "waits" | "completes";
  /** Of a beginning: what it goes on from, with the hash of the content as it was served. */
  readonly from?: { readonly checkpoint_id: string; readonly version: number; readonly hash: string };
  /** Of a failure: as what it is reported. */
  readonly class?: FailureClass;
}

/** Stored bytes of a checkpoint are about to be changed; `at` of the machine's monotonic clock, `wall` of the other one. */
export interface DamageLine {
  readonly line: "damage";
  readonly at: number;
  readonly wall: number;
  readonly task: string;
  readonly checkpoint_id: string;
}

export type Line = CallLine | SentLine | DoneLine | LifeLine | DamageLine;

/** Microseconds of CLOCK_MONOTONIC: comparable between the processes of one machine, unmoved by any wall clock. */
export function instant(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}

const writeFd = promisify(write);
const syncFd = promisify(fdatasync);

export class HistoryWriter {
  readonly #fd: number;
  #waiting: string[] = [];
  #flushing: Promise<void> | undefined;

  /** Throws when the file exists: a history is never continued by another process. */
  constructor(path: string) {
    this.#fd = openSync(path, "ax");
  }

  /** Resolves when the line is on disk. Lines of one moment share one sync. */
  append(line: Line): Promise<void> {
    this.#waiting.push(`${JSON.stringify(line)}\n`);
    // Each caller's line is in the buffer by now; the flush that begins next takes it along.
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

/** Reads every file of the folder. The last line of a killed process may be half written; it was never acted upon. */
export function readHistory(folder: string): Line[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) => {
      const lines = readFileSync(join(folder, name), "utf8").split("\n");
      const torn = lines.pop();
      if (torn !== "" && torn !== undefined && isWhole(torn)) lines.push(torn);
      return lines.map((line) => JSON.parse(line) as Line);
    });
}

function isWhole(line: string): boolean {
  try {
    JSON.parse(line);
    return true;
  } catch {
    return false;
  }
}

/** A call with its end; `end` infinite where none was recorded. */
export interface Attempt extends Omit<CallLine, "line" | "at"> {
  readonly begin: number;
  readonly end: number;
  readonly outcome: DoneLine["outcome"];
  readonly code?: string;
  readonly committed?: CommittedFacts;
  readonly seen?: Seen;
}

export interface History {
  readonly attempts: readonly Attempt[];
  /** Commands by id: the bytes that were sent. */
  readonly sent: ReadonlyMap<string, SentLine>;
  readonly lives: readonly LifeLine[];
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
    .map(({ line: _line, at, ...call }): Attempt => {
      const done = ends.get(call.call);
      // Killed or given up between the call and its first bytes: it never left, so it must never be found.
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
    lives: lines.filter((line) => line.line === "life"),
    damages: lines.filter((line) => line.line === "damage"),
  };
}
