/**
 * What a saver has read of its threads: entries never change, so only newer ones are read again. A server with many threads keeps those
 * that it used last.
 */
import type { StoredValue, ThreadEntry } from "../../protocol/langgraph-entry.ts";

const CHARS_MAX = 64_000_000;
/** Of the names and numbers of an entry. */
const ENTRY_CHARS = 1_000;

export interface ReadThread {
  /** The position of the newest entry in the task. */
  readonly seq: number;
  readonly entries: readonly ThreadEntry[];
}

export const NOTHING_READ: ReadThread = { seq: 0, entries: [] };

export class ThreadCache {
  readonly #charsMax: number;
  /** The one that was used last is the last. */
  readonly #threads = new Map<string, { readonly read: ReadThread; readonly chars: number }>();
  #chars = 0;

  constructor(charsMax = CHARS_MAX) {
    this.#charsMax = charsMax;
  }

  get(task: string): ReadThread | undefined {
    const known = this.#threads.get(task);
    if (known === undefined) return undefined;
    this.#threads.delete(task);
    this.#threads.set(task, known);
    return known.read;
  }

  set(task: string, read: ReadThread): void {
    this.#remove(task);
    const chars = read.entries.reduce((sum, entry) => sum + charsOf(entry), 0);
    this.#threads.set(task, { read, chars });
    this.#chars += chars;
    for (const oldest of this.#threads.keys()) {
      if (this.#chars <= this.#charsMax) return;
      this.#remove(oldest);
    }
  }

  #remove(task: string): void {
    this.#chars -= this.#threads.get(task)?.chars ?? 0;
    this.#threads.delete(task);
  }
}

function charsOf(entry: ThreadEntry): number {
  const values: StoredValue[] =
    entry.kind === "checkpoint"
      ? [entry.checkpoint, entry.metadata, ...Object.values(entry.values).map(([, value]) => value)]
      : entry.kind === "writes"
        ? entry.writes.map(({ value }) => value)
        : [];
  return values.reduce((sum, [, data]) => sum + data.length, ENTRY_CHARS);
}
