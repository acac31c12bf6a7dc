/**
 * The messages of a shredded task are erased before its end, and once more a minute after it. A service may have read a text of the task, or an offer in the
 * outbox, before they were removed, and may have published it behind the first erasure. After the end there is nothing of the task to read.
 *
 * The transaction of the end writes a row that demands it, and the row is cleared after the second erasure. So a process that ends in between leaves it to the
 * next one.
 */
import type { Bytes, Tx } from "../../../store/store.ts";
import { decodeChecked, readable } from "../../kv/codec.ts";
import { after, systemKeys } from "../../kv/keyspace.ts";
import { clearAcknowledgements } from "./content.ts";
import { parseShred } from "./shred-keys.ts";
import { endsStep, type ShredPlace, type ShredStep, type ShredSweep } from "./shred-sweep.ts";

/** Longer than a service has a text in memory: publishing ends within five seconds, and its repetition begins with a read. */
const LATE_MS = 60_000;
/** Tasks of one step. */
const TASKS_MAX = 16;
const READ = { label: "plan_late_messages", deadlineMs: 3_000 } as const;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe", label: "late_messages" } as const;

/** Erases the messages of the next tasks after `from` whose shredding ended a minute ago. */
export async function stepLateMessages(
  sweep: ShredSweep,
  from: Bytes | null = null,
): Promise<Pick<ShredStep, "failed" | "next">> {
  const { store } = sweep;
  const { begin, end } = systemKeys.lateMessages();
  const range = { begin: from === null ? begin : after(from), end };
  const { rows, more } = await store.read(READ, (reader) => reader.getRange(range, { limit: TASKS_MAX }));
  const failed: ShredStep["failed"][number][] = [];
  for (const { key, value } of rows) {
    if (!isDue(value, sweep.now())) continue;
    const place = parseShred(key);
    try {
      await sweep.eraseMessages(place);
      await store.transact(WRITE, (tx) => finish(tx, sweep, place));
    } catch (error) {
      if (endsStep(error)) throw error;
      failed.push({ ...place, error });
    }
  }
  return { failed, next: more ? (rows.at(-1)?.key ?? null) : null };
}

/** A damaged row does not say when, and neither does a clock that was set back: an erasure too many does no harm. */
function isDue(value: Bytes, nowMs: number): boolean {
  const endedMs = readable(() => decodeChecked<number>(value));
  return endedMs === null || Math.abs(nowMs - endedMs) >= LATE_MS;
}

/** A late alert may have been acknowledged, with a note. */
async function finish(tx: Tx, { guard }: ShredSweep, { tenant, task }: ShredPlace): Promise<void> {
  await guard(tx);
  clearAcknowledgements(tx, { tenant, task });
  tx.clear(systemKeys.lateMessagesOf(tenant, task));
}
