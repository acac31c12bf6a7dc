/**
 * The pending writes of an agent: its commands that are still in the queue when its exit is reported. After
 * the failure was recorded they would be refused, so the report waits until they are applied. The wait is
 * measured by the clock of this process and is bounded: an agent that keeps writing to the queue must not
 * prevent the recovery of its task.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import { areOwners, type Ownership } from "./ownership.ts";

/** Long enough to drain a typical queue once the store has recovered. */
const WAIT_MS_MAX = 30_000;
/**
 * Cap on the time counted between two checks: while the store is down there are none, and the queue stands
 * still.
 */
const CHECK_MS_MAX = 2_000;
/** Waiting reports that are remembered. Forgetting one restarts its wait. */
const REMEMBERED_MAX = 10_000;

interface Wait {
  readonly ms: number;
  readonly checkedAt: number;
}

/**
 * How long each report has waited, by a monotonic clock. A report is identified by its position in the
 * stream.
 */
export class PendingWritesWait {
  readonly #waits = new Map<number, Wait>();

  /** Whether the report may wait longer. */
  isLeft(seq: number, monotonicMs: number): boolean {
    const { ms, checkedAt } = this.#waits.get(seq) ?? { ms: 0, checkedAt: monotonicMs };
    const wait = { ms: ms + Math.min(CHECK_MS_MAX, monotonicMs - checkedAt), checkedAt: monotonicMs };
    if (this.#waits.size >= REMEMBERED_MAX) this.#waits.clear();
    this.#waits.set(seq, wait);
    return wait.ms < WAIT_MS_MAX;
  }

  end(seq: number): void {
    this.#waits.delete(seq);
  }
}

/**
 * Whether the exit report at `seq` must wait for pending writes. Throws while the store or the bus is
 * unavailable.
 */
export type AwaitsPendingWrites = (of: Ownership, seq: number) => Promise<boolean>;

export function createPendingWritesCheck(
  bus: Pick<Bus, "stream">,
  repository: Pick<CheckpointRepository, "recoveryActions">,
  clock: Pick<Clock, "monotonic">,
): AwaitsPendingWrites {
  const wait = new PendingWritesWait();
  const hasPendingWrites = async (of: Ownership): Promise<boolean> => {
    // Throws while the store is unavailable, so that this time does not count.
    const [isOwner] = await areOwners(repository, [of]);
    if (!isOwner) return false;
    const filter = SUBJECTS.queuedOf(of.tenant, of.agentId, of.task);
    return (await bus.stream(STREAMS.queue).count(filter)) > 0;
  };
  return async (of, seq) => {
    if ((await hasPendingWrites(of)) && wait.isLeft(seq, clock.monotonic())) return true;
    wait.end(seq);
    return false;
  };
}
