/**
 * How many attempts at recovery may be open at once. A machine that dies takes hundreds of agents with it,
 * and all of their tasks returning at one moment would be the next outage. An offer that no agent accepts
 * holds its place for minutes, so the attempts for one agent type of a tenant hold at most half of the
 * places that the others leave: the first such type half of the places, the second half of the rest. Nine types without any
 * agents fill a cap of 256.
 *
 * The cap is approximate, since it holds for all watchdogs together and each reads the counts periodically.
 */
import type { AttemptKind } from "../../../shared/records/kv/counters.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";

const READ_EVERY_MS = 250;
/**
 * How long a type counts as saturated: examining thousands of its tasks each time would take a whole core.
 */
const SATURATED_MS = { min: 500, spread: 500 };
/** Saturated types that are remembered. The tasks of a forgotten one are examined again. */
const SATURATED_MAX = 1_000;

export interface AttemptAdmission {
  /** Whether one more attempt for this agent type may begin now. Throws when the store is unavailable. */
  admit(kind: AttemptKind): Promise<boolean>;
  /** Whether the type was at its limit a moment ago. */
  has(kind: AttemptKind): boolean;
  /** Milliseconds until a saturated type may have capacity again; Infinity if none is saturated. */
  readonly endsInMs: number;
}

type Repository = Pick<CheckpointRepository, "recoveryActions">;

export function createAdmission(
  repository: Repository,
  clock: Pick<Clock, "monotonic">,
  max: number,
): AttemptAdmission {
  const hasCapacity = createCapacity(repository, clock, max);
  const saturatedUntil = new Map<string, number>();
  const has = (kind: AttemptKind): boolean => (saturatedUntil.get(nameOf(kind)) ?? 0) > clock.monotonic();
  return {
    async admit(kind) {
      if (has(kind)) return false;
      if (await hasCapacity(kind)) return true;
      if (saturatedUntil.size >= SATURATED_MAX) saturatedUntil.clear();
      const pauseMs = SATURATED_MS.min + Math.random() * SATURATED_MS.spread;
      saturatedUntil.set(nameOf(kind), clock.monotonic() + pauseMs);
      return false;
    },
    has,
    get endsInMs() {
      const left = [...saturatedUntil.values()]
        .map((untilMs) => untilMs - clock.monotonic())
        .filter((ms) => ms > 0);
      // With many saturated types, one of them would always be about to end.
      return left.length === 0 ? Number.POSITIVE_INFINITY : Math.max(SATURATED_MS.min, Math.min(...left));
    },
  };
}

/** Counts the granted attempts until it reads the counts of the store again. */
function createCapacity(
  { recoveryActions }: Repository,
  clock: Pick<Clock, "monotonic">,
  max: number,
): (kind: AttemptKind) => Promise<boolean> {
  let readAt = Number.NEGATIVE_INFINITY;
  let all = counted(async () => 0);
  let byType = new Map<string, Promise<Count>>();
  return async (kind) => {
    if (clock.monotonic() - readAt > READ_EVERY_MS) {
      readAt = clock.monotonic();
      all = counted(async () => (await recoveryActions.counts()).attempted);
      byType = new Map();
    }
    const ofType = byType.get(nameOf(kind)) ?? counted(() => recoveryActions.attempts(kind));
    byType.set(nameOf(kind), ofType);
    const [total, own] = await Promise.all([all, ofType]);
    if (own.open >= max - total.open) return false;
    total.open += 1;
    own.open += 1;
    return true;
  };
}

const nameOf = ({ tenant, agentType }: AttemptKind): string => `${tenant}/${agentType}`;

interface Count {
  open: number;
}

async function counted(read: () => Promise<number>): Promise<Count> {
  return { open: await read() };
}
