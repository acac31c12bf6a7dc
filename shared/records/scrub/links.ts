/** What leads from one record of a task to another and is no checkpoint: from parents to children, and to the task's handoffs. */
import { openHandoffOf } from "../../lifecycle/task.ts";
import { FleetError } from "../../protocol/errors.ts";
import { handoffSchema } from "../../protocol/handoff-record.ts";
import { isOpenHandoff } from "../../protocol/handoff-states.ts";
import type { Bytes, KeyRange } from "../../store/store.ts";
import { decodeHandoff } from "../handoff/record.ts";
import { after, endingId, parseLink, systemKeys } from "../kv/keyspace.ts";
import { decodeHead } from "../task/head.ts";
import { readable } from "./head.ts";
import { ofTask, type Sight } from "./scrub-reader.ts";

/** Entries read at once. */
const SLICE = 64;

/** Key of the last entry that is verified; null: none is. */
export interface LinksAt {
  readonly after: Bytes | null;
}

/** Both ends of every link are there; null: all are verified. */
export async function verifyChildren(sight: Sight, from: LinksAt): Promise<LinksAt | null> {
  const { reader, keys, task } = sight;
  return verifyRange(sight, keys.children(task), from, async (found) => {
    const links = found.map(parseLink);
    const ends = links.flatMap(({ parent, child }) => [parent, child]);
    const rows = await reader.getMany(ends.flatMap((id) => [keys.id(id), keys.checkpoint(task, id)]));
    // One of the two alone is met where the checkpoint stands.
    const isThere = (end: number): boolean => rows[2 * end] !== undefined || rows[2 * end + 1] !== undefined;
    for (const [i, { parent, child }] of links.entries()) {
      if (isThere(2 * i) && isThere(2 * i + 1)) continue;
      const details = `a link leads from ${parent} to ${child}, and one of them is not there`;
      sight.note({ kind: "link", checkpoint_id: child, version: null, details });
    }
  });
}

/** Every record of a handoff of the task; null: all are verified. */
export async function verifyHandoffs(sight: Sight, from: LinksAt): Promise<LinksAt | null> {
  const { reader, keys, task } = sight;
  // Whichever is open now: read in each snapshot anew, because handoffs open and end at any time.
  const head = await reader.get(keys.task(task));
  const open = head === undefined ? undefined : readable(() => openHandoffOf(decodeHead(head)));
  return verifyRange(sight, keys.taskHandoffs(task), from, async (found) => {
    const ids = found.map(endingId);
    const values = await reader.getMany(ids.map((id) => keys.handoff(id)));
    for (const [i, id] of ids.entries()) await verifyHandoff(sight, id, values[i], open);
  });
}

/** The one that the head says is open: without it nothing can be done with the task. */
export async function verifyOpenHandoff(sight: Sight): Promise<void> {
  const { reader, keys, task } = sight;
  const head = await reader.get(keys.task(task));
  const open = head === undefined ? null : readable(() => openHandoffOf(decodeHead(head)));
  if (open !== null) await verifyHandoff(sight, open, await reader.get(keys.handoff(open)), open);
}

/** `open`: what the head says; undefined: that is not known. */
async function verifyHandoff(
  sight: Sight,
  id: string,
  value: Bytes | undefined,
  open: string | null | undefined,
): Promise<void> {
  const note = (details: string): void => sight.note(ofTask("handoff", `handoff ${id} ${details}`));
  const read = handoffSchema.safeParse(handoffIn(id, value));
  if (!read.success) return note("is lost or cannot be read");
  const { handoff_id, tenant, task_id, state, due_at } = read.data;
  if (handoff_id !== id || tenant !== sight.tenant || task_id !== sight.task) {
    return note("holds another handoff");
  }
  if (open !== undefined && isOpenHandoff(state) !== (open === id)) {
    return note(`is ${state}, and the head says that ${open === id ? "it is open" : "it is not open"}`);
  }
  if (due_at === null) return;
  // Without it nobody would look at the handoff again.
  const due = await sight.reader.get(systemKeys.handoffDue(Date.parse(due_at), tenant, id));
  if (due === undefined) note("is not among those that are due");
}

function handoffIn(id: string, value: Bytes | undefined): unknown {
  try {
    return decodeHandoff(id, value);
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return null;
    throw error;
  }
}

async function verifyRange(
  sight: Sight,
  range: KeyRange,
  from: LinksAt,
  verify: (keys: readonly Bytes[]) => Promise<void>,
): Promise<LinksAt | null> {
  for (let at = from; ; ) {
    const begin = at.after === null ? range.begin : after(at.after);
    const { rows, more } = await sight.reader.getRange({ begin, end: range.end }, { limit: SLICE });
    if (rows.length > 0) await verify(rows.map(({ key }) => key));
    const last = rows.at(-1);
    if (!more || last === undefined) return null;
    at = { after: last.key };
    await sight.step.breathe();
    if (sight.step.isSpent) return at;
  }
}
