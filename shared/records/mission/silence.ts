/**
 * Marks silent missions as candidates for a recovery (seed 002, the detection loop): a pass over the missions that
 * have not ended, in small reads. Each mark is one transaction, which checks the lease and reads the mission again, so
 * a pass that a crash or another instance repeats marks nothing twice.
 */
import { newSalt } from "../../integrity/seal.ts";
import type { MissionRecord } from "../../lifecycle/mission/mission.ts";
import { isNewlySilent, lapseOf, lastActivityOf, type ResumePoint } from "../../lifecycle/mission/silence.ts";
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Silence } from "../../protocol/mission.ts";
import { DEFAULT_POLICIES } from "../../protocol/policy.ts";
import type { Reader, Store, Tx } from "../../store/store.ts";
import { after, parseTask, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { decodeSoundHead } from "../task/head.ts";
import { MissionTransaction } from "./mission-transaction.ts";
import { findSnapshot } from "./resumption.ts";
import { openSoundRecord } from "./sealed-record.ts";

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
  const { store, guard, now, silenceMs, service, incarnation } = search;
  const { value } = await store.transact(WRITE, async (tx) => {
    await guard(tx);
    const nowMs = now();
    const work = await MissionTransaction.observe(tx, {
      actor: { tenant: place.tenant, task: place.mission, agent: service },
      commandId: "",
      fence: undefined,
      requestHash: "",
      nowMs,
      incarnation,
      // No checkpoint is written.
      isMirrored: false,
      newSalt,
      policies: DEFAULT_POLICIES,
      traceparent: undefined,
    });
    if (work === null || !isNewlySilent(work.mission, work.head, { nowMs, silenceMs })) return null;
    return writeMark(tx, work, nowMs);
  });
  return value;
}

async function writeMark(tx: Tx, work: MissionTransaction, nowMs: number): Promise<Silence> {
  const { mission, head, context } = work;
  const point = await recoveryPoint(tx, context.actor.tenant, mission.mission_id);
  const last = lastActivityOf(mission, head);
  const lapse = lapseOf(mission, { last, until: last, point, nowMs });
  work.add("mission_lapse", lapse.compacted, { since: lapse.since }, { mission: lapse.mission });
  if (lapse.recoverable !== null) {
    const { event, snapshot } = lapse.recoverable;
    work.add("mission_recoverable", event, { snapshot }, {});
  }
  await work.finish();
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
