/**
 * How many recoveries may be under way at once: a machine that dies takes hundreds of agents with it, and all their tasks coming back
 * at one moment would be the next outage. An offer that nobody takes keeps its place for minutes, so the agents of one type in one tenant
 * have no more places than are left free: the first such type the half, the next one half of the rest, and so on. It takes nine types that
 * nobody has to fill a cap of 256.
 * Of all watchdogs together; each looks at the counts anew every so often, so it is held nearly.
 */
import type { AttemptKind } from "../../../shared/records/kv/counters.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";

const READ_EVERY_MS = 250;

/** Whether one more attempt of this kind may begin now. Throws when the store is away. */
export type Admit = (kind: AttemptKind) => Promise<boolean>;

export function createAdmission(
  { recovery }: Pick<CheckpointRepository, "recovery">,
  clock: Pick<Clock, "monotonic">,
  most: number,
): Admit {
  let readAt = Number.NEGATIVE_INFINITY;
  let all = counted(async () => 0);
  let own = new Map<string, Promise<Count>>();
  return async (kind) => {
    if (clock.monotonic() - readAt > READ_EVERY_MS) {
      readAt = clock.monotonic();
      all = counted(async () => (await recovery.counts()).attempted);
      own = new Map();
    }
    const name = `${kind.tenant}/${kind.agentType}`;
    const ownCount = own.get(name) ?? counted(() => recovery.attempts(kind));
    own.set(name, ownCount);
    const [total, ofKind] = await Promise.all([all, ownCount]);
    if (ofKind.open >= most - total.open) return false;
    total.open += 1;
    ofKind.open += 1;
    return true;
  };
}

interface Count {
  open: number;
}

async function counted(read: () => Promise<number>): Promise<Count> {
  return { open: await read() };
}
