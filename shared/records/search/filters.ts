/**
 * The filters of a search. They are applied twice: to the index entry, so that only possible matches are
 * opened, and to the verified checkpoint, so that an answer never depends on an outdated entry.
 */
import { sha256Hex } from "../../integrity/canonical.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import { invalid } from "../../protocol/errors.ts";
import { idTime } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import { type Cover, coverOf } from "./index-entries.ts";
import { wordsIn, wordsOf } from "./tokenizer.ts";

const NAMES = ["task", "agent", "type", "phase", "status", "trigger"] as const;

export interface Filters {
  /** The required value of each field; undefined: any value. */
  readonly fields: Readonly<Record<(typeof NAMES)[number], string | undefined>>;
  /** The range of the time in a checkpoint's id, in milliseconds, inclusive. */
  readonly fromMs: number;
  readonly toMs: number;
  /** The words that a checkpoint must contain, all of them; null: the search has no text. */
  readonly words: readonly string[] | null;
}

const TIME_MAX = 2 ** 48 - 1;

/** Throws INVALID for a time range that ends before it begins, and for a text without words. */
export function filtersOf(query: QueryParams<"search">): Filters {
  const fromMs = query.from === undefined ? 0 : Math.max(0, Math.ceil(Date.parse(query.from)));
  const toMs = query.to === undefined ? TIME_MAX : Math.min(TIME_MAX, Math.floor(Date.parse(query.to)));
  if (fromMs > toMs) throw invalid("to", "a time at or after from", query.to);
  const words = query.text === undefined ? null : wordsIn(query.text);
  if (words?.length === 0) {
    const { index_word_chars_min: min, index_word_chars_max: max } = LIMITS;
    throw invalid("text", `at least one word of ${min} to ${max} letters or digits`, query.text);
  }
  const fields = {
    task: query.task_id,
    agent: query.agent_id,
    type: query.agent_type,
    phase: query.phase,
    status: query.status,
    trigger: query.trigger,
  };
  return { fields, fromMs, toMs, words };
}

/** Identifies the filters in a cursor, so that a cursor of another search is refused. */
export function fingerprint(filters: Filters): string {
  const { fields, fromMs, toMs, words } = filters;
  return sha256Hex(JSON.stringify([NAMES.map((name) => fields[name] ?? null), fromMs, toMs, words]));
}

export function isInWindow(id: string, { fromMs, toMs }: Filters): boolean {
  const time = idTime(id);
  return time >= fromMs && time <= toMs;
}

/** Whether the indexed fields match. The time range and the words are not checked here. */
export function coverMatches(cover: Cover, { fields }: Filters): boolean {
  return NAMES.every((name) => fields[name] === undefined || fields[name] === cover[name]);
}

export function checkpointMatches(checkpoint: Checkpoint, filters: Filters): boolean {
  if (!isInWindow(checkpoint.metadata.checkpoint_id, filters)) return false;
  if (!coverMatches(coverOf(checkpoint), filters)) return false;
  if (filters.words === null) return true;
  const words = wordsOf(checkpoint);
  return filters.words.every((word) => words.includes(word));
}
