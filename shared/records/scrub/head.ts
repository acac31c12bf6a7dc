/**
 * The head of a task against its records: it must be readable, and the newest. What it says is kept while the task is gone through, which
 * may take several snapshots: order and audit trail only grow, so what stood in them when the task was begun is verified up to there, and
 * what is written meanwhile belongs to the next pass.
 */
import { viewOf } from "../../lifecycle/task.ts";
import { type Task, taskSchema } from "../../protocol/task.ts";
import type { Bytes, KeyRange } from "../../store/store.ts";
import { decodePlace } from "../checkpoint/checkpoint-location.ts";
import { decodeOrder } from "../checkpoint/order.ts";
import { UnreadableValue } from "../kv/codec.ts";
import { parseSeq } from "../kv/keyspace.ts";
import { decodeHead, isFirstHead } from "../task/head.ts";
import { verifyRecovery } from "./recovery.ts";
import { ofTask, type Sight } from "./scrub-reader.ts";

/** How far a task is verified. */
export interface Extent {
  /** The last place of the order, and the last entry of the audit trail; 0: there is none. */
  readonly seq: number;
  readonly auditSeq: number;
  /** What the head says; null: it cannot be relied on. */
  readonly head:
    | (Pick<Task, "seq" | "audit_seq" | "audit_hash" | "state" | "fence"> & {
        /** The trail of an earlier version may say that this active task is blocked. */
        readonly may_be_blocked?: boolean;
      })
    | null;
}

export async function verifyHead(sight: Sight): Promise<Extent> {
  const { reader, keys, task } = sight;
  const [value, order, trail] = await Promise.all([
    reader.get(keys.task(task)),
    lastOf(sight, keys.orderRange(task)),
    lastOf(sight, keys.auditRange(task)),
  ]);
  const extent = { seq: order?.seq ?? 0, auditSeq: trail?.seq ?? 0 };
  const head = readHead(sight, value);
  if (head === null) return { ...extent, head: null };
  await verifyRecovery(sight, head);
  if (head.seq < extent.seq || head.audit_seq < extent.auditSeq) {
    sight.note(ofTask("head", "the head is older than the task's records"));
    return { ...extent, head: null };
  }
  if (head.seq > extent.seq) {
    sight.note(ofTask("order", `positions ${extent.seq + 1} to ${head.seq} of the order are lost`));
  } else await verifyNamed(sight, head, order?.value);
  const { seq, audit_seq, audit_hash, state, fence } = head;
  const may_be_blocked = isUnrecordedRejection(head);
  return { ...extent, head: { seq, audit_seq, audit_hash, state, fence, may_be_blocked } };
}

/** Earlier versions called a task blocked from the rejection of its attempt's handoff until the watchdogs had recorded it. */
function isUnrecordedRejection({ recovery, handoff_id, owner }: Task): boolean {
  return recovery?.state === "attempted" && handoff_id === null && owner === null;
}

/** The head when nothing else can have written it; what else it is becomes a finding. */
function readHead(sight: Sight, value: Bytes | undefined): Task | null {
  if (value === undefined) {
    sight.note(ofTask("head", "the head is lost"));
    return null;
  }
  const read = taskSchema.safeParse(readable(() => viewOf(decodeHead(value))));
  if (!read.success) {
    sight.note(ofTask("head", "the head cannot be read"));
    return null;
  }
  if (read.data.task_id === sight.task && read.data.tenant === sight.tenant) {
    if (isFirstHead(value)) sight.step.earlierHeads.push({ tenant: sight.tenant, task: sight.task });
    return read.data;
  }
  sight.note(ofTask("head", "the head is of another task"));
  return null;
}

/** The checkpoints that a head names are those of its task. */
async function verifyNamed(sight: Sight, head: Task, lastOrder: Bytes | undefined): Promise<void> {
  const last = decodeOrder(lastOrder);
  // An entry that cannot be read is met in the order itself.
  if (head.latest_id !== (last?.id ?? null) && (last !== null || lastOrder === undefined)) {
    sight.note(ofTask("head", "the head names another checkpoint as its latest than the order does"));
  }
  if (head.last_successful_id === null) return;
  const place = await sight.reader.get(sight.keys.id(head.last_successful_id));
  if (place === undefined || readable(() => decodePlace(place))?.task === sight.task) return;
  sight.note(ofTask("head", "the head names a checkpoint of another task as its last successful one"));
}

async function lastOf(sight: Sight, range: KeyRange): Promise<{ seq: number; value: Bytes } | null> {
  const { rows } = await sight.reader.getRange(range, { limit: 1, reverse: true });
  return rows[0] === undefined ? null : { seq: parseSeq(rows[0].key), value: rows[0].value };
}

/** null: the bytes are damaged. */
export function readable<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof UnreadableValue || error instanceof TypeError) return null;
    throw error;
  }
}
