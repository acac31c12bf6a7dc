/**
 * The controller of recoveries: takes the steps of a recovery that are due, one after the other. A step that
 * another watchdog took first is not taken again; the task is read again instead. A task whose agent type has
 * as many open attempts as admission allows waits without delaying the tasks of other types.
 */
import { uuidv7 } from "uuidv7";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Recovery } from "../../../shared/protocol/recovery-record.ts";
import type { AttemptKind } from "../../../shared/records/kv/counters.ts";
import { type DuePlace, duePlaceOf, type RecoveryPlace } from "../../../shared/records/recovery/due.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import { type Controller, startController } from "../../../shared/runtime/controller.ts";

import { keptTrace } from "../../../shared/runtime/observability/trace-context.ts";
import { currentTraceparent, withSpan } from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import type { AttemptAdmission } from "./admission.ts";

/** A recovery takes fewer steps in a row. More of them are a defect. */
const STEPS_MAX = 6;
/** A further try would end in the same way. */
const PERMANENT: ReadonlySet<string> = new Set(["CORRUPT", "TOO_LARGE", "INVALID"]);

type Repository = Pick<CheckpointRepository, "recoveryActions">;

/** A recovery is due after a failure, after a pause, and at an operator's request. */
export function startRecoveryController(
  context: Pick<ServiceContext, "clock" | "log">,
  repository: Repository,
  admission: AttemptAdmission,
): Controller<RecoveryPlace> {
  return startController<RecoveryPlace, DuePlace>(
    {
      name: "recoveries",
      fieldsOf: ({ tenant, task }) => ({ tenant, task_id: task }),
      run: (place) => takeRecoverySteps(context.clock, repository, admission, place),
      search: async (untilMs, limit, passOver) => {
        const heads = await repository.recoveryActions.due(untilMs, limit, passOver);
        return heads.map((head) => ({ key: duePlaceOf(head), dueAt: head.recovery?.due_at ?? null }));
      },
      held: admission,
    },
    context,
  );
}

/** Takes every step that is due; an attempt only if it is admitted. */
export async function takeRecoverySteps(
  clock: Pick<Clock, "now">,
  repository: Repository,
  admission: Pick<AttemptAdmission, "admit">,
  place: RecoveryPlace,
): Promise<void> {
  for (let steps = 0; steps < STEPS_MAX; steps += 1) {
    const recovery = await dueRecovery(repository, place, clock.now());
    if (recovery === null) return;
    if (recovery.state === "waiting" && !(await admission.admit(recovery.kind))) return;
    const parent = keptTrace(recovery.failure?.traceparent);
    await withSpan("recovery", { "fleet.task": place.task }, () => take(repository, place, recovery), {
      parent,
    });
  }
  throw new FleetError("INTERNAL", "the recovery takes too many steps");
}

type DueRecovery = Recovery & { readonly due_at: string; readonly kind: AttemptKind };

/** null: nothing is due. */
async function dueRecovery(
  { recoveryActions }: Repository,
  { tenant, task }: RecoveryPlace,
  nowMs: number,
): Promise<DueRecovery | null> {
  const [head] = await recoveryActions.heads(tenant, [task]);
  const found = head?.recovery ?? null;
  if (head == null || found === null || found.due_at === null || Date.parse(found.due_at) > nowMs)
    return null;
  return { ...found, due_at: found.due_at, kind: duePlaceOf(head) };
}

async function take(repository: Repository, place: RecoveryPlace, recovery: DueRecovery): Promise<void> {
  const { due_at: dueAt } = recovery;
  if (recovery.state === "blocked") return void (await repository.recoveryActions.probe(place, { dueAt }));
  try {
    await attemptFromPoint(repository, place, recovery);
  } catch (error) {
    if (!(error instanceof FleetError) || !PERMANENT.has(error.code)) throw error;
    // Blocked, since it would fail for ever: an operator must look at it.
    await repository.recoveryActions.block(place, { dueAt, reason: "chain_broken", details: error.message });
  }
}

async function attemptFromPoint(
  { recoveryActions }: Repository,
  place: RecoveryPlace,
  found: DueRecovery,
): Promise<void> {
  const { due_at: dueAt, choice, rung, avoid_id: avoidId } = found;
  const point = await recoveryActions.findPoint(place, {
    checkpointId: choice?.checkpoint_id ?? null,
    before: rung === "previous" ? avoidId : null,
  });
  if (!point.found) {
    await recoveryActions.block(place, { dueAt, reason: point.reason, details: point.details });
    return;
  }
  const { checkpoint_id: checkpointId } = point.checkpoint.metadata;
  await recoveryActions.attempt(place, { dueAt, handoffId: uuidv7(), checkpointId }, currentTraceparent());
}
