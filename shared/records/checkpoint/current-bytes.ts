/**
 * The current versions of many checkpoints of a task as they are stored, verified and not parsed. Followers that copy whole checkpoints use them.
 */
import type { Sealed } from "../../integrity/seal.ts";
import type { Reader } from "../../store/store.ts";
import { isQuarantined } from "../corruption/quarantine.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { decodeTombstone } from "../retention/tombstone.ts";
import { readSealed } from "./body.ts";
import { decodePlace } from "./checkpoint-location.ts";
import { decodeOrder } from "./order.ts";

export interface CurrentBytes {
  /** By the id of the checkpoint. Corrupt and quarantined ones are left out. */
  readonly sound: ReadonlyMap<string, Sealed>;
  /** The ids of those that retention removed. */
  readonly removed: readonly string[];
}

export async function readCurrentBytes(
  reader: Reader,
  tenant: string,
  task: string,
  ids: readonly string[],
): Promise<CurrentBytes> {
  const keys = tenantKeys(tenant);
  const locations = await reader.getMany(ids.map((id) => keys.id(id)));
  const places = ids.flatMap((id, i) => {
    const value = locations[i];
    const place = value === undefined ? null : decodePlace(value);
    return place?.task === task ? [{ id, seq: place.seq }] : [];
  });
  const rows = await reader.getMany(
    places.flatMap(({ id, seq }) => [keys.order(task, seq), keys.checkpoint(task, id)]),
  );
  const sound = new Map<string, Sealed>();
  const removed: string[] = [];
  for (const [i, { id, seq }] of places.entries()) {
    const entry = decodeOrder(rows[2 * i]);
    if (entry?.id === id) {
      const sealed = await readSealed(reader, keys, task, id, rows[2 * i + 1], entry);
      if (sealed === null) continue;
      if (!isQuarantined(await reader.get(keys.quarantine(task, id, entry.version)))) sound.set(id, sealed);
    } else if (entry === null && decodeTombstone(await reader.get(keys.tombstone(task, seq)))?.id === id)
      removed.push(id);
  }
  return { sound, removed };
}
