/**
 * The last words of an agent: what waited in the queue when its end was reported. Noting the end first would shut them out, so the report
 * is looked at again until they are applied. No clock decides that but this process's own, and none waits for ever: whoever goes on writing
 * to the queue must not keep its task from being recovered.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import { type Owning, owned } from "./ownership.ts";

/** By so much a queue of any usual length has emptied, once the store is well. */
const PATIENCE_MS = 30_000;
/** Between two looks more does not count: while the store is away nobody looks, and nothing leaves the queue. */
const LOOK_MS_MAX = 2_000;
/** Reports that are waited for; of one that is forgotten the waiting begins anew. */
const REMEMBERED_MAX = 10_000;

interface Wait {
  readonly ms: number;
  /** When it was looked at last. */
  readonly at: number;
}

/** For how long each report has waited, by a monotonic clock; a report is known by its place in its stream. */
export class Patience {
  readonly #waits = new Map<number, Wait>();

  /** Whether it is worth waiting any longer. */
  isLeft(seq: number, monotonicMs: number): boolean {
    const { ms, at } = this.#waits.get(seq) ?? { ms: 0, at: monotonicMs };
    const wait = { ms: ms + Math.min(LOOK_MS_MAX, monotonicMs - at), at: monotonicMs };
    if (this.#waits.size >= REMEMBERED_MAX) this.#waits.clear();
    this.#waits.set(seq, wait);
    return wait.ms < PATIENCE_MS;
  }

  end(seq: number): void {
    this.#waits.delete(seq);
  }
}

/** Whether the report at `seq`, about the end of an agent, is to be looked at again later. Throws while store or bus is away. */
export type AwaitsLastWords = (of: Owning, seq: number) => Promise<boolean>;

export function createLastWords(
  bus: Pick<Bus, "stream">,
  repository: Pick<CheckpointRepository, "recovery">,
  clock: Pick<Clock, "monotonic">,
): AwaitsLastWords {
  const patience = new Patience();
  const isQueued = async (of: Owning): Promise<boolean> => {
    // While the store is away nothing leaves the queue, and that time is nobody's fault.
    const [isOwner] = await owned(repository, [of]);
    if (!isOwner) return false;
    const filter = SUBJECTS.queuedOf(of.tenant, of.agentId, of.task);
    return (await bus.stream(STREAMS.queue).count(filter)) > 0;
  };
  return async (of, seq) => {
    if ((await isQueued(of)) && patience.isLeft(seq, clock.monotonic())) return true;
    patience.end(seq);
    return false;
  };
}
