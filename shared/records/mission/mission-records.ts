/** Reads of the records of one mission. */
import { type LockTable, NO_LOCKS } from "../../lifecycle/mission/locks.ts";
import type { MissionRecord } from "../../lifecycle/mission/mission.ts";
import type { SortieRecord } from "../../lifecycle/mission/sortie.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Reader } from "../../store/store.ts";
import { endingName, type TenantKeys } from "../kv/keyspace.ts";
import { decodeRecord } from "./sealed-record.ts";

/** null: there is no such mission. Throws CORRUPT. */
export async function readMission(
  reader: Reader,
  keys: TenantKeys,
  task: string,
): Promise<MissionRecord | null> {
  const value = await reader.get(keys.mission(task));
  return value === undefined ? null : decodeRecord<MissionRecord>(value, { mission_id: task });
}

/** null: there is no such sortie. Throws CORRUPT. */
export async function readSortie(
  reader: Reader,
  keys: TenantKeys,
  task: string,
  sortie: string,
): Promise<SortieRecord | null> {
  const value = await reader.get(keys.sortie(task, sortie));
  return value === undefined
    ? null
    : decodeRecord<SortieRecord>(value, { mission_id: task, sortie_id: sortie });
}

/** Throws CORRUPT. */
export async function readLocks(reader: Reader, keys: TenantKeys, task: string): Promise<LockTable> {
  const value = await reader.get(keys.missionLocks(task));
  return value === undefined ? NO_LOCKS : decodeRecord<LockTable>(value, { mission_id: task });
}

/** All sorties of a mission, ordered by their ids. Throws CORRUPT. */
export async function readSorties(reader: Reader, keys: TenantKeys, task: string): Promise<SortieRecord[]> {
  const limit = LIMITS.mission_sorties_count_max;
  const { rows } = await reader.getRange(keys.sorties(task), { limit });
  return rows.map(({ key, value }) =>
    decodeRecord<SortieRecord>(value, { mission_id: task, sortie_id: endingName(key) }),
  );
}
