/** The checkpoint from which a mission resumes, what it would restore, and the restoration itself, in one transaction. */

import { type LockRestorationInput, restoreLocks } from "../../lifecycle/mission/lock-restoration.ts";
import { LockChanges, NO_LOCKS } from "../../lifecycle/mission/locks.ts";
import { restoreMessages } from "../../lifecycle/mission/message-restoration.ts";
import type { MissionRecord } from "../../lifecycle/mission/mission.ts";
import { requireActive } from "../../lifecycle/mission/mission.ts";
import { recoveryContextOf, specialistContext } from "../../lifecycle/mission/recovery-context.ts";
import { type Restoration, restorationOf } from "../../lifecycle/mission/restoration.ts";
import type { SortieRecord } from "../../lifecycle/mission/sortie.ts";
import type { Checkpoint } from "../../protocol/checkpoint.ts";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import { FleetError } from "../../protocol/errors.ts";
import { type MissionSnapshot, missionSnapshotSchema, type RecoveryContext } from "../../protocol/mission.ts";
import type { MissionResumeCommand } from "../../protocol/mission-commands.ts";
import type { ResumePreview } from "../../protocol/mission-queries.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Reader, Tx } from "../../store/store.ts";
import { findMany, placeOf, readTask } from "../checkpoint/lookup.ts";
import { readOrder } from "../checkpoint/order.ts";
import { signaturesBeside } from "../esign/beside.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import type { CommandContext, Replay } from "../task/command-transaction.ts";
import type { RememberedResumption } from "../task/idempotency.ts";
import { readSnapshotMessages } from "./messages/mailbox-records.ts";
import { notifyHolders, restoreMailbox } from "./messages/mailbox-restoration.ts";
import { missionAnswer } from "./mission-commands.ts";
import { requireMission } from "./mission-lists.ts";
import { readLocks, readSorties } from "./mission-records.ts";
import { MissionTransaction } from "./mission-transaction.ts";

/** The number of checkpoints that are read at once behind a newest one that is not sound: they may be large. */
const SLICE = 8;

/** The sorties of one audit entry. */
const ENTRY_SORTIES_MAX = 200;

export interface SnapshotPoint {
  readonly checkpoint: Checkpoint;
  readonly snapshot: MissionSnapshot;
  /** Newer checkpoints that cannot be read. */
  readonly passedOver: readonly CorruptCheckpoint[];
}

/**
 * The newest checkpoint with a whole snapshot, at or before the one that is named. A corrupt one is passed over.
 * Throws NOT_FOUND if there is none, INVALID for a named one without a snapshot.
 */
export async function findSnapshot(
  reader: Reader,
  tenant: string,
  task: string,
  named: string | undefined,
): Promise<SnapshotPoint> {
  const keys = tenantKeys(tenant);
  const place = named === undefined ? null : await placeOf(reader, keys, named);
  if (named !== undefined && place?.task !== task) throw noSnapshot(task, named);
  const passedOver: CorruptCheckpoint[] = [];
  let to = place?.seq ?? (await readTask(reader, tenant, task))?.seq ?? 0;
  for (let limit = 1; to >= 1; limit = SLICE) {
    const places = await readOrder(reader, keys, task, { from: 1, to, limit, reverse: true });
    for (const found of await findMany(reader, keys, task, places)) {
      if (!found.sound) {
        if (found.removed === undefined) passedOver.push(found.corrupt);
        continue;
      }
      const { checkpoint } = found;
      const snapshot = missionSnapshotSchema.safeParse(checkpoint.fleet);
      if (snapshot.success && snapshot.data.mission_id === task)
        return { checkpoint, snapshot: snapshot.data, passedOver };
      if (checkpoint.metadata.checkpoint_id === named) throw withoutSnapshot(named);
    }
    to -= places.length;
  }
  throw noSnapshot(task, named, passedOver);
}

/** The corrupt and lost checkpoints in front of the snapshot from which the mission would resume. */
export async function unsoundBefore(
  reader: Reader,
  tenant: string,
  task: string,
  named: string | undefined,
): Promise<readonly CorruptCheckpoint[]> {
  try {
    return (await findSnapshot(reader, tenant, task, named)).passedOver;
  } catch (error) {
    if (!(error instanceof FleetError) || error.code !== "NOT_FOUND") throw error;
    return (error.details as { corrupt?: readonly CorruptCheckpoint[] }).corrupt ?? [];
  }
}

function withoutSnapshot(id: string): FleetError {
  const expected = "a checkpoint with the snapshot of the mission";
  return new FleetError("INVALID", "the input is not valid", {
    fields: [{ path: "checkpoint_id", expected, got: id }],
  });
}

function noSnapshot(task: string, named?: string, corrupt: readonly CorruptCheckpoint[] = []): FleetError {
  return new FleetError("NOT_FOUND", "the mission has no checkpoint to resume from", {
    details: { mission_id: task, ...(named !== undefined && { checkpoint_id: named }), corrupt },
  });
}

interface Plan extends SnapshotPoint {
  readonly restoration: Restoration;
  readonly recoveryContext: RecoveryContext;
}

async function planOf(
  reader: Reader,
  tenant: string,
  mission: MissionRecord,
  { named, nowMs }: { readonly named: string | undefined; readonly nowMs: number },
): Promise<Plan> {
  const point = await findSnapshot(reader, tenant, mission.mission_id, named);
  const keys = tenantKeys(tenant);
  const sorties = await readSorties(reader, keys, mission.mission_id);
  const locks = await readLocks(reader, keys, mission.mission_id);
  const { snapshot, checkpoint } = point;
  const takenAt = checkpoint.metadata.committed_at;
  const isExact = named !== undefined;
  const restoration = restorationOf({ mission, sorties, locks, snapshot, takenAt, isExact, nowMs });
  return { ...point, restoration, recoveryContext: contextAfter(point, restoration, nowMs) };
}

/** The context of the snapshot, with the steps of the sorties that stayed as they are, and with new blockers. */
function contextAfter(
  { snapshot, passedOver }: SnapshotPoint,
  { mission, sorties, kept }: Restoration,
  nowMs: number,
): RecoveryContext {
  const before = snapshot.recovery_context;
  const { next_steps, files_modified } =
    kept.length === 0 ? before : recoveryContextOf({ mission, sorties, nowMs });
  return {
    ...before,
    next_steps,
    files_modified,
    blockers: [...before.blockers, ...passedOver.map(nameOf).map(passedOverText)],
  };
}

export const passedOverText = (id: string): string =>
  `Checkpoint ${id} is corrupt; the mission resumed from an earlier one`;

const nameOf = ({ checkpoint_id }: CorruptCheckpoint): string => checkpoint_id ?? "of unknown id";

export async function resumeMission(
  tx: Tx,
  context: CommandContext,
  { checkpoint_id: named }: MissionResumeCommand,
): Promise<RememberedResumption | Replay> {
  const beganAt = performance.now();
  const work = await MissionTransaction.begin(tx, context);
  if (!(work instanceof MissionTransaction)) return work;
  requireActive(work.mission);
  const { tenant, task: mission_id } = context.actor;
  const plan = await planOf(tx, tenant, work.mission, { named, nowMs: context.nowMs });
  const { restoration, checkpoint } = plan;
  const { checkpoint_id } = checkpoint.metadata;
  const { changed, mission } = restoration;
  for (let from = 0; from < changed.length; from += ENTRY_SORTIES_MAX) {
    const sorties = changed.slice(from, from + ENTRY_SORTIES_MAX);
    const data = { mission_id, checkpoint_id, sortie_ids: sorties.map(({ sortie_id }) => sortie_id) };
    work.add("sortie_restore", { type: "sorties_restored", data }, { snapshot: checkpoint_id }, { sorties });
  }
  const locks = restoreLocks(await work.locks(), lockInput(plan, work.coordinator, context.nowMs));
  work.writeLocks();
  const messages = await restoreMailbox(work, plan.snapshot.pending_messages, checkpoint_id);
  const notified = await notifyHolders(work, locks);
  const counts = {
    recovered_sorties: restoration.restored,
    recovered_locks: locks.reacquired,
    requeued_messages: messages.queued,
  };
  const recovery_duration_ms = Math.round(performance.now() - beganAt);
  const data = { checkpoint_id, mission_id, ...counts, recovery_duration_ms };
  work.add("mission_resume", { type: "fleet_recovered", data }, { snapshot: checkpoint_id }, { mission });
  return work.complete({
    ...missionAnswer(mission, work.at),
    checkpoint_id,
    restored: { sorties: restoration.restored, locks: locks.reacquired, messages: messages.queued },
    kept_sorties: [...restoration.kept],
    passed_over: plan.passedOver.map(nameOf),
    blockers: [...locks.blockers, ...messages.blockers],
    requeued_messages: messages.requeue.map(({ message_id }) => message_id),
    skipped_messages: [...messages.skipped],
    notified,
  });
}

function lockInput(
  { snapshot, restoration }: Plan,
  coordinator: string,
  nowMs: number,
): LockRestorationInput {
  const { sorties, kept } = restoration;
  return { snapshots: snapshot.active_locks, sorties, kept, coordinator, nowMs };
}

/** What a resumption would do now. */
export async function previewResumption(
  reader: Reader,
  tenant: string,
  caller: string,
  { mission_id, checkpoint_id: named }: QueryParams<"resume_preview">,
  nowMs: number,
): Promise<ResumePreview> {
  const mission = await requireMission(reader, tenantKeys(tenant), mission_id);
  const keys = tenantKeys(tenant);
  const plan = await planOf(reader, tenant, mission, { named, nowMs });
  const { restoration, checkpoint, snapshot, recoveryContext, passedOver } = plan;
  const head = await readTask(reader, tenant, mission_id);
  const found = new LockChanges(await readLocks(reader, keys, mission_id), { nowMs, firstSeq: 0 });
  const locks = restoreLocks(found.expire(), lockInput(plan, head?.owner ?? caller, nowMs));
  const present = await readSnapshotMessages(reader, keys, mission_id, snapshot.pending_messages);
  const { checkpoint_id } = checkpoint.metadata;
  const messages = restoreMessages(snapshot.pending_messages, present);
  const before = new Map(
    (await readSorties(reader, tenantKeys(tenant), mission_id)).map(({ sortie_id, status }) => [
      sortie_id,
      status,
    ]),
  );
  return {
    mission_id,
    checkpoint_id,
    progress_percent: snapshot.progress_percent,
    total_sorties: snapshot.sorties.length,
    completed_sorties: snapshot.sorties.filter(({ status }) => status === "completed").length,
    restored: { sorties: restoration.restored, locks: locks.reacquired, messages: messages.queued },
    changes: restoration.changed.map(({ sortie_id, status }) => ({
      sortie_id,
      status_from: before.get(sortie_id) ?? null,
      status_to: status,
    })),
    kept_sorties: [...restoration.kept],
    passed_over: passedOver.map(nameOf),
    messages: messages.requeue.map(({ message_id, from, to, subject }) => ({
      ...{ message_id, from, to: [...to], subject },
    })),
    skipped_messages: [...messages.skipped],
    recovery_context: {
      ...recoveryContext,
      blockers: [...recoveryContext.blockers, ...locks.blockers, ...messages.blockers],
    },
    ...(await signaturesBeside(reader, tenant, [checkpoint])),
  };
}

/**
 * The recovery context now, or that of a checkpoint; of the mission, or of one specialist. null: the specialist has
 * no sortie.
 */
export async function readRecoveryContext(
  reader: Reader,
  tenant: string,
  { mission_id, checkpoint_id, agent_id }: QueryParams<"recovery_context">,
  nowMs: number,
): Promise<RecoveryContext | null> {
  const keys = tenantKeys(tenant);
  const mission = await requireMission(reader, keys, mission_id);
  if (checkpoint_id === undefined) return contextNow(reader, keys, mission, agent_id, nowMs);
  const { checkpoint, snapshot } = await findSnapshot(reader, tenant, mission_id, checkpoint_id);
  if (agent_id === undefined) return snapshot.recovery_context;
  const takenAt = checkpoint.metadata.committed_at;
  const exact = { mission, sorties: [], locks: NO_LOCKS, snapshot, takenAt, isExact: true, nowMs };
  const { sorties } = restorationOf(exact);
  const own = specialistContext({ mission, sorties, nowMs }, agent_id);
  if (own === null) return null;
  const { mission_summary, elapsed_time_ms, last_activity_at } = snapshot.recovery_context;
  return { ...own, mission_summary, elapsed_time_ms, last_activity_at };
}

async function contextNow(
  reader: Reader,
  keys: TenantKeys,
  mission: MissionRecord,
  agent: string | undefined,
  nowMs: number,
): Promise<RecoveryContext | null> {
  const sorties: SortieRecord[] = await readSorties(reader, keys, mission.mission_id);
  const state = { mission, sorties, nowMs };
  return agent === undefined ? recoveryContextOf(state) : specialistContext(state, agent);
}
