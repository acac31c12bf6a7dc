/**
 * Imports the thread of another saver. The thread is taken first and its entries are read again, so two imports at once write no entry
 * twice. An import that is interrupted leaves an earlier state of the thread, which its importer owns until the rest follows.
 */
import { canonicalText } from "../../integrity/canonical.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { ThreadEntry } from "../../protocol/langgraph-entry.ts";
import type { FleetClient } from "../client/client.ts";
import { ThreadLog, threadTask } from "./thread-log.ts";

export interface ThreadImportOptions {
  /** The agent type of the task of each thread. */
  readonly agentType: string;
  readonly deadlineMs?: number | undefined;
}

/** What the fleet has of the entries. `taken`: the thread has other ones, or another agent owns it. */
export type ThreadPresence = "none" | "part" | "all" | "taken";

export class ThreadImport {
  readonly #fleet: FleetClient;
  readonly #options: ThreadImportOptions;

  constructor(fleet: FleetClient, options: ThreadImportOptions) {
    this.#fleet = fleet;
    this.#options = options;
  }

  async presence(thread: string, entries: readonly ThreadEntry[]): Promise<ThreadPresence> {
    const { isEmpty, differs, missing } = await compared(this.#log(), thread, entries);
    if (missing.length === 0) return "all";
    if (differs) return "taken";
    const { deadlineMs } = this.#options;
    const owner = (await this.#fleet.getTask(threadTask(thread), { deadlineMs }))?.owner ?? null;
    if (owner !== null && owner !== this.#fleet.agentId) return "taken";
    return isEmpty ? "none" : "part";
  }

  /**
   * Writes what the fleet lacks, verifies it, and releases the thread. Returns the number of entries that were written. Throws CONFLICT if
   * the thread is taken, and FENCED after another import has taken it.
   */
  async write(
    thread: string,
    entries: readonly ThreadEntry[],
    onEntry: (written: number) => void = () => {},
  ): Promise<number> {
    const log = this.#log();
    await log.take(thread);
    const { differs, missing } = await compared(log, thread, entries);
    if (differs && missing.length > 0)
      throw new FleetError("CONFLICT", "the thread has other entries in this fleet", {
        details: { task_id: threadTask(thread) },
      });
    for (const [index, entry] of missing.entries()) {
      await log.append(entry);
      onEntry(index + 1);
    }
    const after = await compared(this.#log(), thread, entries);
    if (after.missing.length > 0)
      throw new FleetError("CORRUPT", "the fleet does not have what was written", {
        details: { task_id: threadTask(thread), missing: after.missing.length },
      });
    await log.release();
    return missing.length;
  }

  #log(): ThreadLog {
    return new ThreadLog(this.#fleet, { ...this.#options, takeOver: false });
  }
}

interface Comparison {
  readonly isEmpty: boolean;
  /** Whether the fleet has entries of another origin. */
  readonly differs: boolean;
  readonly missing: readonly ThreadEntry[];
}

async function compared(
  log: ThreadLog,
  thread: string,
  entries: readonly ThreadEntry[],
): Promise<Comparison> {
  const stored = new Map(
    (await log.entries(threadTask(thread))).map((entry) => [canonicalText(entry), entry] as const),
  );
  const wanted = new Set(entries.map((entry) => canonicalText(entry)));
  const replacing = new Set(entries.flatMap(specialKeys));
  const others = [...stored].filter(([text]) => !wanted.has(text)).map(([, entry]) => entry);
  return {
    isEmpty: stored.size === 0,
    differs: others.some((entry) => !isReplaced(entry, replacing)),
    missing: entries.filter((entry) => !stored.has(canonicalText(entry))),
  };
}

/** A special write replaces an earlier one of its task, in the source as well as here. */
function isReplaced(entry: ThreadEntry, replacing: ReadonlySet<string>): boolean {
  const keys = specialKeys(entry);
  return keys.length > 0 && keys.every((key) => replacing.has(key));
}

/** Empty for an entry that is anything but special writes. */
function specialKeys(entry: ThreadEntry): string[] {
  if (entry.kind !== "writes" || entry.writes.some(({ idx }) => idx >= 0)) return [];
  const { ns, checkpoint_id, task_id, writes } = entry;
  return writes.map(({ idx }) => JSON.stringify([ns, checkpoint_id, task_id, idx]));
}
