/**
 * Carries recoveries on, one step after the other, until nothing is due. Any number of watchdogs may do so at once: a step that another
 * made first is not made again, and the task is looked at anew. In one watchdog a task is in one hand.
 */
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { Recovery } from "../../../shared/protocol/recovery-record.ts";
import type { AttemptKind } from "../../../shared/records/kv/counters.ts";
import { type DuePlace, duePlaceOf, type RecoveryPlace } from "../../../shared/records/recovery/due.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { KeepingBack } from "../../../shared/runtime/keyed-backoff.ts";
import { newId } from "../../../shared/runtime/new-id.ts";
import { keptTrace } from "../../../shared/runtime/observability/trace-context.ts";
import { currentTraceparent, withSpan } from "../../../shared/runtime/observability/tracing.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import type { Admit } from "./admission.ts";

export interface Recovering {
  /** Does what is due. What fails is logged, and kept back for a while. */
  carryOn(place: RecoveryPlace): Promise<void>;
  /** Whether a task is not worth a look now: it failed lately, or as many of its kind as may be are under way. */
  isKeptBack(place: DuePlace): boolean;
  /** How soon a kind of which as many as may be were under way is worth a look again; infinite: there is none. */
  readonly roomInMs: number;
}

/** More than a recovery can make in a row: something else is wrong then. */
const STEPS_MAX = 6;
/** While as many of a kind as may be are under way none of it is looked at: thousands that wait, each looked at by itself, would cost a whole core. */
const FULL_MS = { least: 500, spread: 500 };
/** Kinds that are known to be full; forgetting them costs a look. */
const FULL_MAX = 1_000;
/** Another try would end in the same way. */
const HOPELESS: ReadonlySet<string> = new Set(["CORRUPT", "TOO_LARGE", "INVALID"]);

type Repository = Pick<CheckpointRepository, "recovery">;
type Due = Recovery & { readonly due_at: string; readonly kind: AttemptKind };

export function createRecovering(
  { clock, log }: ServiceContext,
  repository: Repository,
  admit: Admit,
): Recovering {
  const inHand = new Map<string, Promise<void>>();
  const keptBack = new KeepingBack(clock);

  const fullUntil = new Map<string, number>();
  const isFull = (kind: AttemptKind): boolean => (fullUntil.get(kindOf(kind)) ?? 0) > clock.monotonic();

  const isAdmitted = async (kind: AttemptKind): Promise<boolean> => {
    if (isFull(kind)) return false;
    if (await admit(kind)) return true;
    if (fullUntil.size >= FULL_MAX) fullUntil.clear();
    fullUntil.set(kindOf(kind), clock.monotonic() + FULL_MS.least + Math.random() * FULL_MS.spread);
    return false;
  };

  const carryOn = async (place: RecoveryPlace): Promise<void> => {
    const name = nameOf(place);
    for (let steps = 0; steps < STEPS_MAX; steps += 1) {
      const recovery = await due(repository, place, clock.now());
      if (recovery === null) return keptBack.succeeded(name);
      if (recovery.state === "waiting" && !(await isAdmitted(recovery.kind))) return;
      await withSpan("recovery", { "fleet.task": place.task }, () => take(repository, place, recovery), {
        parent: keptTrace(recovery.failure?.traceparent),
      });
    }
    throw new FleetError("INTERNAL", "the recovery does not come to rest");
  };

  const tried = async (place: RecoveryPlace): Promise<void> => {
    const name = nameOf(place);
    try {
      await carryOn(place);
    } catch (error) {
      const times = keptBack.failed(name);
      log.error(
        { error, tenant: place.tenant, task_id: place.task, times },
        "a recovery could not be carried on",
      );
    } finally {
      inHand.delete(name);
    }
  };

  return {
    carryOn(place) {
      const name = nameOf(place);
      const work = inHand.get(name) ?? tried(place);
      inHand.set(name, work);
      return work;
    },
    isKeptBack: (place) => keptBack.has(nameOf(place)) || isFull(place),
    get roomInMs() {
      const left = [...fullUntil.values()]
        .map((untilMs) => untilMs - clock.monotonic())
        .filter((ms) => ms > 0);
      // Of many kinds one is always about to have room.
      return left.length === 0 ? Number.POSITIVE_INFINITY : Math.max(FULL_MS.least, Math.min(...left));
    },
  };
}

const nameOf = ({ tenant, task }: RecoveryPlace): string => `${tenant}/${task}`;
const kindOf = ({ tenant, agentType }: AttemptKind): string => `${tenant}/${agentType}`;

/** null: nothing is due. */
async function due(
  { recovery }: Repository,
  { tenant, task }: RecoveryPlace,
  nowMs: number,
): Promise<Due | null> {
  const [head] = await recovery.heads(tenant, [task]);
  const found = head?.recovery ?? null;
  if (head == null || found === null || found.due_at === null || Date.parse(found.due_at) > nowMs)
    return null;
  return { ...found, due_at: found.due_at, kind: duePlaceOf(head) };
}

async function take(repository: Repository, place: RecoveryPlace, recovery: Due): Promise<void> {
  const { due_at: dueAt } = recovery;
  if (recovery.state === "blocked") return void (await repository.recovery.probe(place, { dueAt }));
  try {
    await attempt(repository, place, recovery);
  } catch (error) {
    if (!(error instanceof FleetError) || !HOPELESS.has(error.code)) throw error;
    // Not tried for ever: a person has to look at it.
    await repository.recovery.block(place, { dueAt, reason: "chain_broken", details: error.message });
  }
}

async function attempt({ recovery }: Repository, place: RecoveryPlace, found: Due): Promise<void> {
  const { due_at: dueAt, wish, rung, avoid_id: avoidId } = found;
  const point = await recovery.findPoint(place, {
    checkpointId: wish?.checkpoint_id ?? null,
    before: rung === "previous" ? avoidId : null,
  });
  if (!point.found) {
    await recovery.block(place, { dueAt, reason: point.reason, details: point.details });
    return;
  }
  const { checkpoint } = point;
  const made = { checkpoint, hash: checkpoint.compliance.hash };
  await recovery.attempt(place, { dueAt, handoffId: newId(), point: made }, currentTraceparent());
}
