/** The head of a task as it is read: one that was written before there were handoffs has none open, and the same for recoveries and blocks. */
import type { Task } from "../../protocol/task.ts";
import type { Bytes } from "../../store/store.ts";
import { decodeChecked, UnreadableValue } from "../kv/codec.ts";

const LATER = { handoff_id: null, recovery: null, block: null };

export function decodeHead(value: Bytes): Task {
  const head = decodeChecked<Task>(value);
  return head.block === undefined ? { ...LATER, ...head } : head;
}

/** For whoever goes through many tasks: null for a damaged head, which must not keep the others from them. */
export function decodeSoundHead(value: Bytes): Task | null {
  try {
    return decodeHead(value);
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}
