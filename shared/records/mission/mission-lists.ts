/** The queries about missions: lists in the order of names, and the current mission. */
import { endOfMission, type MissionRecord, progressOf } from "../../lifecycle/mission/mission.ts";
import { silenceOf } from "../../lifecycle/mission/silence.ts";
import { isEndedSortie, type SortieRecord } from "../../lifecycle/mission/sortie.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Mission } from "../../protocol/mission.ts";
import type { MissionPage, SortiePage } from "../../protocol/mission-queries.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Bytes, Reader } from "../../store/store.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { after, endingName, parseTask, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeSoundHead } from "../task/head.ts";
import { readMission } from "./mission-records.ts";
import { decodeRecord, openSoundRecord } from "./sealed-record.ts";

/** The number of records read at once. */
const SLICE = 100;

/** The size of the sorties on a page; the last one may exceed it. */
const PAGE_BYTES = LIMITS.reply_bytes_max / 2;

type Filter = Pick<QueryParams<"missions">, "status" | "active" | "recoverable" | "agent_id">;

/** A page ends early after a scan of many missions that do not match. A damaged record is named. */
export async function listMissions(
  reader: Reader,
  tenant: string,
  { limit, cursor, participant, ...filter }: QueryParams<"missions">,
): Promise<MissionPage> {
  const keys = tenantKeys(tenant);
  const { status = "", active, recoverable, agent_id = "" } = filter;
  const kind = `missions/${tenant}/${status}/${active}/${recoverable}/${agent_id}/${participant ?? ""}`;
  // Missions that have not ended are few, so they have an index.
  const isIndexed = active || recoverable;
  const index = isIndexed ? keys.activeMissions() : keys.missions();
  const keyOf = isIndexed ? keys.activeMission : keys.mission;
  let last = cursor === undefined ? null : openCursor(kind, cursor);
  const missions: Mission[] = [];
  const corrupt: string[] = [];
  for (let scanned = 0; scanned < LIMITS.tasks_scan_count_max; ) {
    const begin = last === null ? index.begin : after(keyOf(last));
    const { rows, more } = await reader.getRange({ begin, end: index.end }, { limit: SLICE });
    const ids = rows.map(({ key }) => parseTask(key));
    const views = await viewsOf(reader, keys, ids);
    for (const [i, id] of ids.entries()) {
      last = id;
      const view = views[i];
      if (view === null) corrupt.push(id);
      if (view == null || !matches(view, filter)) continue;
      if (participant === undefined || view.coordinator === participant) missions.push(view);
      else {
        const sorties = await soundSorties(reader, keys, id);
        if (sorties.some((one) => isOpenOf(one, participant))) missions.push(view);
        scanned += sorties.length;
      }
      if (missions.length < limit && scanned < LIMITS.tasks_scan_count_max) continue;
      const isLast = !more && i === ids.length - 1;
      return { missions, corrupt, ...(!isLast && { cursor: sealCursor(kind, last) }) };
    }
    scanned += rows.length;
    if (!more || last === null) return { missions, corrupt };
  }
  return { missions, corrupt, ...(last !== null && { cursor: sealCursor(kind, last) }) };
}

/** The scrub finds a damaged one. */
async function soundSorties(reader: Reader, keys: TenantKeys, mission: string): Promise<SortieRecord[]> {
  const { rows } = await reader.getRange(keys.sorties(mission), { limit: LIMITS.mission_sorties_count_max });
  return rows.flatMap(({ value }) => openSoundRecord<SortieRecord>(value) ?? []);
}

const isOpenOf = ({ assigned_to, status }: SortieRecord, agent: string): boolean =>
  assigned_to === agent && !isEndedSortie(status);

function matches(mission: Mission, { status, active, recoverable, agent_id }: Filter): boolean {
  if (recoverable && (mission.silence?.checkpoint_id ?? null) === null) return false;
  if (status !== undefined && mission.status !== status) return false;
  if (active && endOfMission(mission.status) !== null) return false;
  return agent_id === undefined || mission.coordinator === agent_id;
}

/** null: damaged; undefined: there is no such mission. */
async function viewsOf(
  reader: Reader,
  keys: TenantKeys,
  ids: readonly string[],
): Promise<(Mission | null | undefined)[]> {
  const values = await reader.getMany(ids.flatMap((id) => [keys.mission(id), keys.task(id)]));
  return ids.map((id, i) => {
    const [mission, head] = [values[2 * i], values[2 * i + 1]];
    return mission === undefined ? undefined : soundView(id, mission, head);
  });
}

function soundView(id: string, value: Bytes, head: Bytes | undefined): Mission | null {
  try {
    return missionView(decodeRecord<MissionRecord>(value, { mission_id: id }), head);
  } catch (error) {
    if (error instanceof FleetError && error.code === "CORRUPT") return null;
    throw error;
  }
}

function missionView(record: MissionRecord, headValue: Bytes | undefined): Mission {
  const head = headValue === undefined ? null : decodeSoundHead(headValue);
  const { sorties_bytes: _bytes, ...mission } = record;
  return {
    ...mission,
    progress_percent: progressOf(mission.sorties),
    coordinator: head?.owner ?? null,
    fence: head?.fence ?? 0,
    checkpoint_id: head?.latest_id ?? null,
    silence: silenceOf(record, head),
  };
}

/** Throws NOT_FOUND, CORRUPT. */
export async function findMission(
  reader: Reader,
  tenant: string,
  caller: string,
  { mission_id }: QueryParams<"mission">,
): Promise<Mission> {
  const keys = tenantKeys(tenant);
  if (mission_id === undefined) return currentMission(reader, keys, caller);
  const record = await requireMission(reader, keys, mission_id);
  return missionView(record, await reader.get(keys.task(mission_id)));
}

export async function requireMission(reader: Reader, keys: TenantKeys, id: string): Promise<MissionRecord> {
  const record = await readMission(reader, keys, id);
  if (record !== null) return record;
  throw new FleetError("NOT_FOUND", "there is no such mission", { details: { mission_id: id } });
}

/** The active mission with the newest activity, of those that the caller coordinates if there is any. */
async function currentMission(reader: Reader, keys: TenantKeys, caller: string): Promise<Mission> {
  let range = keys.activeMissions();
  let [own, newest]: (Mission | undefined)[] = [];
  const later = (one: Mission, than: Mission | undefined): Mission =>
    than === undefined || one.last_activity_at >= than.last_activity_at ? one : than;
  for (let scanned = 0; scanned < LIMITS.tasks_scan_count_max; ) {
    const { rows, more } = await reader.getRange(range, { limit: SLICE });
    for (const mission of await viewsOf(
      reader,
      keys,
      rows.map(({ key }) => parseTask(key)),
    )) {
      if (mission == null || endOfMission(mission.status) !== null) continue;
      newest = later(mission, newest);
      if (mission.coordinator === caller) own = later(mission, own);
    }
    const last = rows.at(-1);
    if (!more || last === undefined) break;
    scanned += rows.length;
    range = { ...range, begin: after(last.key) };
  }
  const current = own ?? newest;
  if (current !== undefined) return current;
  throw new FleetError("NOT_FOUND", "there is no active mission");
}

/** Throws NOT_FOUND without such a mission, CORRUPT for a damaged sortie. */
export async function listSorties(
  reader: Reader,
  tenant: string,
  { mission_id, limit, cursor, ...filter }: QueryParams<"sorties">,
): Promise<SortiePage> {
  const keys = tenantKeys(tenant);
  await requireMission(reader, keys, mission_id);
  const kind = `sorties/${tenant}/${mission_id}/${filter.status ?? ""}/${filter.assigned_to ?? ""}`;
  const { begin, end } = keys.sorties(mission_id);
  const from = cursor === undefined ? begin : after(keys.sortie(mission_id, openCursor(kind, cursor)));
  const { rows } = await reader.getRange(
    { begin: from, end },
    { limit: LIMITS.mission_sorties_count_max + 1 },
  );
  const sorties: SortieRecord[] = [];
  let bytes = 0;
  for (const [i, { key, value }] of rows.entries()) {
    const sortie_id = endingName(key);
    const sortie = decodeRecord<SortieRecord>(value, { mission_id, sortie_id });
    if (filter.status !== undefined && sortie.status !== filter.status) continue;
    if (filter.assigned_to !== undefined && sortie.assigned_to !== filter.assigned_to) continue;
    sorties.push(sortie);
    bytes += value.length;
    if (sorties.length < limit && bytes < PAGE_BYTES) continue;
    const isLast = i === rows.length - 1;
    return { sorties: shown(sorties), ...(!isLast && { cursor: sealCursor(kind, sortie_id) }) };
  }
  return { sorties: shown(sorties) };
}

const shown = (sorties: readonly SortieRecord[]) => sorties.map((one) => ({ ...one, files: [...one.files] }));
