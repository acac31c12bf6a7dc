/**
 * The place of an imported version in its task. One from an export file keeps its own. One from the files of a lost store may lack its earlier
 * versions and the checkpoints before it, so it becomes version 1 at the next position, and its origin keeps what was replaced.
 */
import { nextOf } from "../../integrity/origin.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import type { ReplacedValues, UnsealedCheckpoint } from "../../protocol/checkpoint.ts";
import type { Tx } from "../../store/store.ts";
import { decodePlace } from "../checkpoint/checkpoint-location.ts";
import type { TenantKeys } from "../kv/keyspace.ts";

export async function placedIn(
  tx: Tx,
  keys: TenantKeys,
  { task_id, seq, origin }: TaskRecord,
  stored: UnsealedCheckpoint,
): Promise<{ readonly checkpoint: UnsealedCheckpoint; readonly replaced?: ReplacedValues }> {
  if (origin?.source !== "mirror") return { checkpoint: stored };
  const { metadata, recovery } = stored;
  const { last_successful_state: state } = recovery;
  const named = [...metadata.parent_ids, ...(state === undefined ? [] : [state])];
  const places = await tx.getMany(named.map((id) => keys.id(id)));
  const known = new Set(
    named.filter((_, i) => {
      const place = places[i];
      return place !== undefined && decodePlace(place).task === task_id;
    }),
  );
  return nextOf(stored, seq + 1, (id) => known.has(id));
}
