/**
 * Marks silent missions as candidates for a recovery (seed 002, the detection loop): a pass over the missions that
 * have not ended, in small reads. Each mark is one transaction, which checks the lease and reads the mission again, so
 * a pass that a crash or another instance repeats marks nothing twice.
 */
import { decisionOfService } from "../../lifecycle/decision.ts";
import type { MissionRecord } from "../../lifecycle/mission/mission.ts";
import { isNewlySilent, lapseOf, lastActivityOf, type ResumePoint } from "../../lifecycle/mission/silence.ts";
import type { TaskRecord } from "../../lifecycle/task.ts";
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Silence } from "../../protocol/mission.ts";
import type { Reader, Store, Tx } from "../../store/store.ts";
import { after, parseTask, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { readNewestHead } from "../task/command-transaction.ts";
import { decodeSoundHead } from "../task/head.ts";
import { writeTransitions } from "../task/transitions.ts";
import { readMission } from "./mission-records.ts";
import { findSnapshot } from "./resumption.ts";
import { encodeRecord, MISSION_NAME, openSoundRecord, recordHash, statedRecord } from "./sealed-record.ts";

/** The number of missions read at once. */
const SLICE = 64;
const READ_DEADLINE_MS = 3_500;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe", label: "mark_silence" } as const;

export interface SilenceSearch {
  readonly store: Store;
  readonly incarnation: number;
  /** The service that acts, for the audit trail. */
  readonly service: string;
  readonly now: () => number;
  /** Time without activity after which a mission is silent. */
  readonly silenceMs: number;
  /** Runs first in every transaction, and throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
}

export interface MissionPlace {
  readonly tenant: string;
  readonly mission: string;
}

interface Slice {
  readonly silent: readonly MissionPlace[];
  /** The last mission that was read, or the next tenant; null: the pass is complete. */
  readonly next: Position | null;
}

interface Position {
  readonly tenant: string;
  readonly last: string | null;
}

/** The missions that are to be marked, slice by slice. */
export async function* findSilent(search: SilenceSearch): AsyncGenerator<readonly MissionPlace[]> {
  const reading = { label: "find_silent_missions", deadlineMs: READ_DEADLINE_MS };
  for (let at: Position | null = { tenant: DEFAULT_TENANT, last: null }; at !== null; ) {
    const from: Position = at;
    const slice: Slice = await search.store.read(reading, (reader) => readSlice(reader, search, from));
    yield slice.silent;
    at = slice.next;
  }
}

async function readSlice(reader: Reader, search: SilenceSearch, { tenant, last }: Position): Promise<Slice> {
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.activeMissions();
  const range = { begin: last === null ? begin : after(keys.activeMission(last)), end };
  const { rows, more } = await reader.getRange(range, { limit: SLICE });
  const ids = rows.map(({ key }) => parseTask(key));
  const values = await reader.getMany(ids.flatMap((id) => [keys.mission(id), keys.task(id)]));
  const silent = ids.filter((_id, i) => {
    const [value, head] = [values[2 * i], values[2 * i + 1]];
    // The scrub finds a damaged record.
    const mission = value === undefined ? null : openSoundRecord<MissionRecord>(value);
    const task = head === undefined ? null : decodeSoundHead(head);
    const rule = { nowMs: search.now(), silenceMs: search.silenceMs };
    return mission !== null && isNewlySilent(mission, task, rule);
  });
  const found = silent.map((mission) => ({ tenant, mission }));
  if (more) return { silent: found, next: { tenant, last: ids.at(-1) ?? null } };
  const other = await tenantAfter(reader, tenant);
  return { silent: found, next: other === null ? null : { tenant: other, last: null } };
}

/** null: the mission is not silent any more, or is marked. Throws CORRUPT for damaged records. */
export async function markSilent(search: SilenceSearch, place: MissionPlace): Promise<Silence | null> {
  const { store, guard, now, silenceMs } = search;
  const { value } = await store.transact(WRITE, async (tx) => {
    await guard(tx);
    const keys = tenantKeys(place.tenant);
    const head = await readNewestHead(tx, keys, place.mission);
    const mission = await readMission(tx, keys, place.mission);
    const nowMs = now();
    if (head === null || mission === null || !isNewlySilent(mission, head, { nowMs, silenceMs })) return null;
    return writeMark(tx, search, { keys, head, mission, nowMs });
  });
  return value;
}

interface Silent {
  readonly keys: TenantKeys;
  readonly head: TaskRecord;
  readonly mission: MissionRecord;
  readonly nowMs: number;
}

async function writeMark(
  tx: Tx,
  { service, incarnation }: SilenceSearch,
  { keys, head, mission, nowMs }: Silent,
): Promise<Silence> {
  const { tenant, task_id: mission_id } = head;
  const point = await recoveryPoint(tx, tenant, mission_id);
  const last = lastActivityOf(mission, head);
  const lapse = lapseOf(mission, { last, until: last, point, nowMs });
  const bytes = encodeRecord(lapse.mission, head.audit_seq + 1);
  tx.set(keys.mission(mission_id), bytes);
  const records = [statedRecord(recordHash(bytes), MISSION_NAME)];
  const decision = decisionOfService(head, service, nowMs);
  decision.add("mission_lapse", { facts: { since: lapse.since, records }, event: lapse.compacted });
  if (lapse.recoverable !== null) {
    const { event, snapshot } = lapse.recoverable;
    decision.add("mission_recoverable", { facts: { snapshot }, event });
  }
  const actor = { id: service, type: "service" } as const;
  const author = { tenant, task: mission_id, actor, commandId: null, nowMs, incarnation };
  writeTransitions(tx, keys, { ...author, traceparent: undefined }, head, decision.transitions);
  return lapse.silence;
}

/** The checkpoint from which the mission would resume; null: there is none. */
async function recoveryPoint(reader: Reader, tenant: string, mission: string): Promise<ResumePoint | null> {
  try {
    const { checkpoint, snapshot } = await findSnapshot(reader, tenant, mission, undefined);
    const { checkpoint_id: id, committed_at: timestamp, trigger } = checkpoint.metadata;
    return { id, timestamp, trigger: trigger.reason, progress_percent: snapshot.progress_percent };
  } catch (error) {
    if (error instanceof FleetError && error.code === "NOT_FOUND") return null;
    throw error;
  }
}
