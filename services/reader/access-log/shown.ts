/** What an entry of the access log says of an answer: ids and numbers. */
import type { AccessEntry } from "../../../shared/protocol/access-log.ts";
import type { AnsweredOp } from "../../../shared/protocol/operations.ts";
import type { QueryParams, QueryResults } from "../../../shared/protocol/queries.ts";

/** null: the answer has no content. */
export type Shown = Pick<
  AccessEntry,
  "task_id" | "task_ids" | "checkpoint_id" | "version" | "handoff_id" | "sha256" | "items"
> | null;

export type ContentReads = {
  readonly [Op in AnsweredOp]?: (params: QueryParams<Op>, result: QueryResults[Op]) => Shown;
};

/** Of a list, by the task of each thing in it. */
export function several(tasks: readonly string[]): Shown {
  if (tasks.length === 0) return null;
  const [first, ...others] = new Set(tasks);
  const items = tasks.length;
  return others.length === 0 ? { task_id: first!, items } : { task_ids: [first!, ...others], items };
}
