/** Whether tasks are still those agents', under those fences, and not over: one read for each tenant among them. */
import { TASK_TABLE, type Task } from "../../../shared/protocol/task.ts";
import type { LeaseKey } from "../../../shared/records/recovery/leases.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";

export interface Owning extends LeaseKey {
  readonly agentId: string;
}

/** In the order asked for. */
export async function owned(
  { recovery }: Pick<CheckpointRepository, "recovery">,
  asked: readonly Owning[],
): Promise<boolean[]> {
  const heads = new Map<Owning, Task | null>();
  for (const [tenant, all] of Map.groupBy(asked, (one) => one.tenant)) {
    const found = await recovery.heads(
      tenant,
      all.map(({ task }) => task),
    );
    for (const [i, one] of all.entries()) heads.set(one, found[i] ?? null);
  }
  return asked.map((one) => isOwned(heads.get(one) ?? null, one));
}

function isOwned(head: Task | null, { agentId, fence }: Owning): boolean {
  if (head === null || TASK_TABLE[head.state].handoff === null) return false;
  return head.owner === agentId && head.fence === fence;
}
