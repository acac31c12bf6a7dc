/** A task whose shredding was approved has lost the records of its mission, or will lose them. */

import { isShredding } from "../../../lifecycle/retention/shred-rules.ts";
import { readable } from "../../kv/codec.ts";
import { decodeHead } from "../../task/head.ts";
import type { TaskScrub } from "../scrub-reader.ts";

/** Reads the head of the same snapshot. */
export async function isShreddedTask({ reader, keys, task }: TaskScrub): Promise<boolean> {
  const value = await reader.get(keys.task(task));
  const head = value === undefined ? null : readable(() => decodeHead(value));
  return head !== null && isShredding(head);
}
