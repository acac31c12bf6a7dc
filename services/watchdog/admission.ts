/**
 * How many recoveries may be under way at once: a machine that dies takes hundreds of agents with it, and all their tasks coming back
 * at one moment would be the next outage. Of all watchdogs together; each looks at the count anew every so often, so it is held nearly.
 */
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Clock } from "../../shared/runtime/clock.ts";

const READ_EVERY_MS = 250;

/** Whether one more attempt may begin now. Throws when the store is away. */
export type Admit = () => Promise<boolean>;

export function createAdmission(
  { recovery }: Pick<CheckpointRepository, "recovery">,
  clock: Pick<Clock, "monotonic">,
  most: number,
): Admit {
  let readAt = Number.NEGATIVE_INFINITY;
  let reading = Promise.resolve();
  let left = 0;
  const read = async (): Promise<void> => {
    const { attempted } = await recovery.counts();
    left = most - attempted;
  };
  return async () => {
    if (clock.monotonic() - readAt > READ_EVERY_MS) {
      readAt = clock.monotonic();
      reading = read();
    }
    await reading;
    left -= 1;
    return left >= 0;
  };
}
