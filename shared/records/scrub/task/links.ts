/** Verifies the records that link others: from parents to children, and from the task to its handoffs. */

import { openHandoffOf } from "../../../lifecycle/task.ts";
import { handoffSchema } from "../../../protocol/handoff-record.ts";
import { isOpenHandoff } from "../../../protocol/handoff-states.ts";
import type { Bytes, KeyRange } from "../../../store/store.ts";
import { soundHandoff } from "../../handoff/record.ts";
import { readable } from "../../kv/codec.ts";
import { parseLink } from "../../kv/key-elements.ts";
import { after, endingId, systemKeys } from "../../kv/keyspace.ts";
import { decodeHead } from "../../task/head.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";

/** The number of entries in one read. */
const SLICE = 64;

/** The key of the last verified entry; null: there is none. */
export interface LinksAt {
  readonly after: Bytes | null;
}

/**
 * Verifies that both ends of every link exist. Returns where the next step continues; null: all are verified.
 */
export async function verifyChildren(scrub: TaskScrub, from: LinksAt): Promise<LinksAt | null> {
  const { reader, keys, task } = scrub;
  return verifyRange(scrub, keys.children(task), from, async (found) => {
    const links = found.map(parseLink);
    const ends = links.flatMap(({ parent, child }) => [parent, child]);
    const rows = await reader.getMany(ends.flatMap((id) => [keys.id(id), keys.checkpoint(task, id)]));
    // If only one of the two rows is lost, the verification of the checkpoint finds that.
    const exists = (end: number): boolean => rows[2 * end] !== undefined || rows[2 * end + 1] !== undefined;
    for (const [i, { parent, child }] of links.entries()) {
      if (exists(2 * i) && exists(2 * i + 1)) continue;
      const details = `a link leads from ${parent} to ${child}, and one of them is not there`;
      scrub.note({ kind: "link", checkpoint_id: child, version: null, details });
    }
  });
}

/**
 * Verifies the records of all handoffs of the task. Returns where the next step continues; null: all are
 * verified.
 */
export async function verifyHandoffs(scrub: TaskScrub, from: LinksAt): Promise<LinksAt | null> {
  const { reader, keys, task } = scrub;
  // The open handoff is read again in each snapshot, because handoffs begin and end at any time.
  const head = await reader.get(keys.task(task));
  const open = head === undefined ? undefined : readable(() => openHandoffOf(decodeHead(head)));
  return verifyRange(scrub, keys.taskHandoffs(task), from, async (found) => {
    const ids = found.map(endingId);
    const values = await reader.getMany(ids.map((id) => keys.handoff(id)));
    for (const [i, id] of ids.entries()) await verifyHandoff(scrub, id, values[i], open);
  });
}

/** Verifies the open handoff of the head: if its record is damaged, every command on the task fails. */
export async function verifyOpenHandoff(scrub: TaskScrub): Promise<void> {
  const { reader, keys, task } = scrub;
  const head = await reader.get(keys.task(task));
  const open = head === undefined ? null : readable(() => openHandoffOf(decodeHead(head)));
  if (open !== null) await verifyHandoff(scrub, open, await reader.get(keys.handoff(open)), open);
}

/** `open` is the open handoff of the head; undefined: unknown. */
async function verifyHandoff(
  scrub: TaskScrub,
  id: string,
  value: Bytes | undefined,
  open: string | null | undefined,
): Promise<void> {
  const note = (details: string): void => scrub.note(ofTask("handoff", `handoff ${id} ${details}`));
  const read = handoffSchema.safeParse(soundHandoff(id, value));
  if (!read.success) return note("is lost or cannot be read");
  const { handoff_id, tenant, task_id, state, due_at } = read.data;
  if (handoff_id !== id || tenant !== scrub.tenant || task_id !== scrub.task) {
    return note("holds another handoff");
  }
  if (open !== undefined && isOpenHandoff(state) !== (open === id)) {
    return note(`is ${state}, and the head says that ${open === id ? "it is open" : "it is not open"}`);
  }
  if (due_at === null) return;
  // Without this entry no sweep finds the handoff.
  const due = await scrub.reader.get(systemKeys.handoffDue(Date.parse(due_at), tenant, id));
  if (due === undefined) note("is not among those that are due");
}

async function verifyRange(
  scrub: TaskScrub,
  range: KeyRange,
  from: LinksAt,
  verify: (keys: readonly Bytes[]) => Promise<void>,
): Promise<LinksAt | null> {
  for (let at = from; ; ) {
    const begin = at.after === null ? range.begin : after(at.after);
    const { rows, more } = await scrub.reader.getRange({ begin, end: range.end }, { limit: SLICE });
    if (rows.length > 0) await verify(rows.map(({ key }) => key));
    const last = rows.at(-1);
    if (!more || last === undefined) return null;
    at = { after: last.key };
    await scrub.step.yieldToOthers();
    if (scrub.step.isSpent) return at;
  }
}
