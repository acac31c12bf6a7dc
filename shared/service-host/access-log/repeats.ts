/** Counts equal entries of a time. The first one is written at once, and the others as one entry with their number when the time is over. */
import type { AccessEntry } from "../../protocol/access-log.ts";
import { LIMITS } from "../../protocol/limits.ts";

interface Counted {
  readonly tenant: string;
  readonly entry: AccessEntry;
  /** Those after the first one. */
  count: number;
  at: string;
  until: string;
}

export class Repeats {
  readonly #write: (tenant: string, entry: AccessEntry) => void;
  #counted = new Map<string, Counted>();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (tenant: string, entry: AccessEntry) => void) {
    this.#write = write;
  }

  /** True: the caller writes the entry. False: it is counted. */
  isFirst(tenant: string, entry: AccessEntry): boolean {
    const { count = 1 } = entry;
    const key = keyOf(tenant, entry);
    const known = this.#counted.get(key) ?? this.#crowd(tenant, entry);
    const until = entry.until ?? entry.at;
    if (known === undefined) {
      this.#counted.set(key, { tenant, entry, count: 0, at: entry.at, until });
      this.#timer ??= setTimeout(() => this.#end(), LIMITS.access_log_repeat_ms).unref();
      return true;
    }
    if (known.count === 0) known.at = entry.at;
    known.count += count;
    known.until = until;
    return false;
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#end();
  }

  /** What an attacker can vary without end is counted together. undefined: there is room for one more. */
  #crowd(tenant: string, { at, outcome }: AccessEntry): Counted | undefined {
    if (this.#counted.size < LIMITS.access_log_repeat_count_max) return undefined;
    const key = `${tenant} ${outcome}`;
    const known = this.#counted.get(key);
    if (known !== undefined) return known;
    const entry: AccessEntry = { at, actor: { id: "*", type: "many" }, op: "*", outcome };
    const made: Counted = { tenant, entry, count: 0, at, until: at };
    this.#counted.set(key, made);
    return made;
  }

  #end(): void {
    const ended = this.#counted;
    this.#counted = new Map();
    this.#timer = undefined;
    for (const { tenant, entry, count, at, until } of ended.values())
      if (count > 0) this.#write(tenant, { ...withoutRequest(entry), at, until, count });
  }
}

/** What is the same for all of them. */
function keyOf(tenant: string, entry: AccessEntry): string {
  const { actor, op, outcome, reason, task_id, sha256, agent_type, credential } = entry;
  return JSON.stringify([tenant, actor.id, op, outcome, reason, task_id, sha256, agent_type, credential]);
}

function withoutRequest({ request_id: _request, trace_id: _trace, ...entry }: AccessEntry): AccessEntry {
  return entry;
}
