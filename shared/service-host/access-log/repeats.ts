/** Counts equal entries of a time. The first one is written at once, and the others as one entry with their number when the time is over. */
import { createHash } from "node:crypto";
import type { AccessEntry } from "../../protocol/access-log.ts";
import { LIMITS } from "../../protocol/limits.ts";

const KEY_CHARS_MAX = 500;

interface Counted {
  readonly tenant: string;
  readonly entry: AccessEntry;
  /** Those after the first one. */
  count: number;
  at: string;
  until: string;
  /** The write of the first one, for which the answers of the others wait too. undefined: none has to wait. */
  written: Promise<void> | undefined;
}

export class Repeats {
  readonly #write: (tenant: string, entry: AccessEntry) => void;
  /** By tenant and outcome: neither the entries of another tenant nor a flood of refusals take the room of reads. */
  #tables = new Map<string, Map<string, Counted>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (tenant: string, entry: AccessEntry) => void) {
    this.#write = write;
  }

  /** Calls `write` for the first entry, and counts the others. Returns what the answer waits for. */
  once(
    tenant: string,
    entry: AccessEntry,
    write: () => Promise<void> | undefined,
  ): Promise<void> | undefined {
    const table = this.#tableOf(tenant, entry.outcome);
    const key = keyOf(entry);
    const isFull = table.size >= LIMITS.access_log_repeat_count_max;
    const known = table.get(key) ?? (isFull ? crowdOf(table, tenant, entry) : undefined);
    if (known !== undefined) {
      add(known, entry);
      return known.written;
    }
    // Content was shown: the log names the caller and the content, however many there are.
    if (isFull) return write();
    const made: Counted = { ...emptyOf(tenant, entry), until: entry.until ?? entry.at };
    table.set(key, made);
    made.written = write()?.then(
      () => {
        made.written = undefined;
      },
      (error: unknown) => {
        // The next one is the first again: this one may never be in the log.
        if (table.get(key) === made) table.delete(key);
        throw error;
      },
    );
    return made.written;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#end();
  }

  #tableOf(tenant: string, outcome: string): Map<string, Counted> {
    const name = `${tenant} ${outcome}`;
    const known = this.#tables.get(name);
    if (known !== undefined) return known;
    const made = new Map<string, Counted>();
    this.#tables.set(name, made);
    this.#timer ??= setTimeout(() => this.#end(), LIMITS.access_log_repeat_ms).unref();
    return made;
  }

  #end(): void {
    const ended = this.#tables;
    this.#tables = new Map();
    this.#timer = undefined;
    for (const table of ended.values())
      for (const { tenant, entry, count, at, until } of table.values())
        if (count > 0) this.#write(tenant, { ...withoutRequest(entry), at, until, count });
  }
}

/** Refusals that an attacker can vary without end are counted together. undefined: the entry is of a read, and not of a refusal. */
function crowdOf(table: Map<string, Counted>, tenant: string, entry: AccessEntry): Counted | undefined {
  const { at, outcome } = entry;
  if (outcome === "ok") return undefined;
  const known = table.get("*");
  if (known !== undefined) return known;
  const made = emptyOf(tenant, { at, actor: { id: "*", type: "many" }, op: "*", outcome });
  table.set("*", made);
  return made;
}

function emptyOf(tenant: string, entry: AccessEntry): Counted {
  return { tenant, entry, count: 0, at: entry.at, until: entry.at, written: undefined };
}

function add(known: Counted, { at, until = at, count = 1 }: AccessEntry): void {
  if (known.count === 0) known.at = at;
  known.count += count;
  known.until = until;
}

/** What is the same for all of them. What a list has shown is a part of it: a list that shows other tasks is another read. */
function keyOf(entry: AccessEntry): string {
  const { actor, op, reason, task_id, checkpoint_id, handoff_id, sha256, agent_type, credential } = entry;
  const ids = [task_id, checkpoint_id, handoff_id, sha256];
  const shown = [entry.version, entry.items, [...(entry.task_ids ?? [])].sort()];
  const key = JSON.stringify([actor.id, op, reason, ...ids, agent_type, credential, ...shown]);
  // The names of a hundred tasks are long, and a tenant may have a thousand keys.
  return key.length <= KEY_CHARS_MAX ? key : createHash("sha256").update(key).digest("base64");
}

function withoutRequest({ request_id: _request, trace_id: _trace, ...entry }: AccessEntry): AccessEntry {
  return entry;
}
