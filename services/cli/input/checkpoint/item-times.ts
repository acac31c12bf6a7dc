// The times of completed items and decisions that options name. Pure: no I/O.

import type { JsonObject } from "../document.ts";
import { objectOf } from "./checkpoint.ts";

/**
 * Gives each item and decision without a time that of the same entry in `before`, the latest checkpoint of the task, or else `now`: a
 * caller names its completed items again in each checkpoint.
 */
export function withTimes(checkpoint: JsonObject, before: JsonObject, now: string): JsonObject {
  const state = objectOf(checkpoint.execution_state);
  const context = objectOf(checkpoint.context_summary);
  const known = new Map([
    ...timesIn(objectOf(before.execution_state).completed_items, "title"),
    ...timesIn(objectOf(before.context_summary).key_decisions, "decision"),
  ]);
  const timed = (list: unknown, name: "title" | "decision") =>
    Array.isArray(list) ? list.map((entry) => timedEntry(entry, name, known, now)) : list;
  const { completed_items: items } = state;
  const { key_decisions: decisions } = context;
  return {
    ...checkpoint,
    ...(items !== undefined && {
      execution_state: { ...state, completed_items: timed(items, "title") },
    }),
    ...(decisions !== undefined && {
      context_summary: { ...context, key_decisions: timed(decisions, "decision") },
    }),
  };
}

function timedEntry(
  entry: unknown,
  name: "title" | "decision",
  known: ReadonlyMap<string, unknown>,
  now: string,
): unknown {
  if (typeof entry !== "string" && Object.keys(objectOf(entry)).length === 0) return entry;
  const members: JsonObject = typeof entry === "string" ? { [name]: entry } : objectOf(entry);
  return { ...members, at: members.at ?? known.get(keyOf(name, members[name])) ?? now };
}

function timesIn(list: unknown, name: "title" | "decision"): [string, unknown][] {
  if (!Array.isArray(list)) return [];
  return list
    .map(objectOf)
    .flatMap((entry): [string, unknown][] =>
      entry.at === undefined ? [] : [[keyOf(name, entry[name]), entry.at]],
    );
}

const keyOf = (name: string, text: unknown): string => `${name} ${String(text)}`;
