/** The head of a task as it is read: one that was written before there were handoffs has none open. */
import type { Task } from "../protocol/task.ts";
import type { Bytes } from "../store/store.ts";
import { decode } from "./codec.ts";

export function decodeHead(value: Bytes): Task {
  const head = decode<Task>(value);
  return head.handoff_id === undefined ? { ...head, handoff_id: null } : head;
}
