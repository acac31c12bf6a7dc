/**
 * Verifies the head of a task against its records: it must be readable and not older than they are. The
 * fields of the head are kept while the task is verified, which may take several snapshots. The order and the
 * audit trail only grow, so they are verified up to their ends at the beginning. Later entries belong to the
 * next pass.
 */

import { withoutOrigin } from "../../../lifecycle/apply.ts";
import { comparable } from "../../../lifecycle/replay.ts";
import { type Task, taskSchema } from "../../../protocol/task.ts";
import type { Bytes, KeyRange } from "../../../store/store.ts";
import { decodePlace } from "../../checkpoint/checkpoint-location.ts";
import { decodeOrder } from "../../checkpoint/order.ts";
import { readable } from "../../kv/codec.ts";
import { parseSeq } from "../../kv/keyspace.ts";
import { isUnlistedBlock } from "../../recovery/due.ts";
import { decodeTombstone } from "../../retention/tombstone.ts";
import { decodeHead, isEarlierHead } from "../../task/head.ts";
import { viewOf } from "../../task/task-view.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";
import { verifyRecovery } from "./recovery.ts";

export type ReplayedMembers = ReturnType<typeof comparable>;

/** The part of a task that a pass verifies. */
export interface Extent {
  /** The last position of the order and the last entry of the audit trail; 0: there is none. */
  readonly seq: number;
  readonly auditSeq: number;
  /** The fields of the head; null: the head is damaged. */
  readonly head:
    | (Pick<Task, "seq" | "audit_seq" | "audit_hash" | "state" | "fence"> & {
        /** The trail of an earlier version may say that this active task is blocked. */
        readonly may_be_blocked?: boolean;
        /** The members that the trail must lead to. An earlier version of a pass in progress lacks them. */
        readonly replayed?: ReplayedMembers;
      })
    | null;
}

export async function verifyHead(scrub: TaskScrub): Promise<Extent> {
  const { reader, keys, task } = scrub;
  const [value, order, tombstone, trail] = await Promise.all([
    reader.get(keys.task(task)),
    lastOf(scrub, keys.orderRange(task)),
    lastOf(scrub, keys.tombstones(task)),
    lastOf(scrub, keys.auditRange(task)),
  ]);
  const seq = Math.max(order?.seq ?? 0, tombstone?.seq ?? 0);
  const extent = { seq, auditSeq: trail?.seq ?? 0 };
  const head = readHead(scrub, value);
  if (head === null) return { ...extent, head: null };
  // The upgrade of the head adds the index entry of a block that earlier versions did not index.
  if (!isUnlistedBlock(decodeHead(value as Bytes))) await verifyRecovery(scrub, head);
  if (head.seq < extent.seq || head.audit_seq < extent.auditSeq) {
    scrub.note(ofTask("head", "the head is older than the task's records"));
    return { ...extent, head: null };
  }
  if (head.seq > extent.seq) {
    scrub.note(ofTask("order", `positions ${extent.seq + 1} to ${head.seq} of the order are lost`));
  } else await verifyNamed(scrub, head, newestOf(seq, order, tombstone));
  const { audit_seq, audit_hash, state, fence } = head;
  const { seq: counted } = head;
  const may_be_blocked = isUnrecordedRejection(head);
  const replayed = comparable(withoutOrigin(decodeHead(value as Bytes)));
  return { ...extent, head: { seq: counted, audit_seq, audit_hash, state, fence, may_be_blocked, replayed } };
}

/**
 * Earlier versions called a task blocked from the rejection of its attempt's handoff until the watchdogs had
 * recorded it.
 */
function isUnrecordedRejection({ recovery, handoff_id, owner }: Task): boolean {
  return recovery?.state === "attempted" && handoff_id === null && owner === null;
}

/** Reads the head. A lost, damaged or foreign head becomes a finding, and the result is null. */
function readHead(scrub: TaskScrub, value: Bytes | undefined): Task | null {
  if (value === undefined) {
    scrub.note(ofTask("head", "the head is lost"));
    return null;
  }
  const read = taskSchema.safeParse(readable(() => viewOf(decodeHead(value))));
  if (!read.success) {
    scrub.note(ofTask("head", "the head cannot be read"));
    return null;
  }
  if (read.data.task_id === scrub.task && read.data.tenant === scrub.tenant) {
    if (isEarlierHead(value)) scrub.step.earlierHeads.push({ tenant: scrub.tenant, task: scrub.task });
    return read.data;
  }
  scrub.note(ofTask("head", "the head is of another task"));
  return null;
}

/** The newest checkpoint by the order and the tombstones. undefined: its entry is damaged; null: there is none. */
function newestOf(
  seq: number,
  order: { seq: number; value: Bytes } | null,
  tombstone: { seq: number; value: Bytes } | null,
): string | null | undefined {
  if (seq === 0) return null;
  if (order?.seq === seq) return decodeOrder(order.value)?.id;
  return decodeTombstone(tombstone?.value)?.id;
}

/** Verifies that the checkpoints in a head belong to its task. */
async function verifyNamed(scrub: TaskScrub, head: Task, newest: string | null | undefined): Promise<void> {
  // An unreadable entry is found when the order is verified.
  if (newest !== undefined && head.latest_id !== newest) {
    scrub.note(ofTask("head", "the head names another checkpoint as its latest than the order does"));
  }
  if (head.last_successful_id === null) return;
  const place = await scrub.reader.get(scrub.keys.id(head.last_successful_id));
  if (place === undefined || readable(() => decodePlace(place))?.task === scrub.task) return;
  scrub.note(ofTask("head", "the head names a checkpoint of another task as its last successful one"));
}

async function lastOf(scrub: TaskScrub, range: KeyRange): Promise<{ seq: number; value: Bytes } | null> {
  const { rows } = await scrub.reader.getRange(range, { limit: 1, reverse: true });
  return rows[0] === undefined ? null : { seq: parseSeq(rows[0].key), value: rows[0].value };
}
