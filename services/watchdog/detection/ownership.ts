/** Whether agents still own their tasks under their fences, with one read for each tenant. */

import { groupBy } from "../../../shared/protocol/group-by.ts";
import { isEnded, type Task } from "../../../shared/protocol/task.ts";
import type { LeaseKey } from "../../../shared/records/recovery/leases.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";

export interface Ownership extends LeaseKey {
  readonly agentId: string;
}

/** In the order of `asked`. False for an ended task. */
export async function areOwners(
  { recoveryActions }: Pick<CheckpointRepository, "recoveryActions">,
  asked: readonly Ownership[],
): Promise<boolean[]> {
  const heads = new Map<Ownership, Task | null>();
  for (const [tenant, all] of groupBy(asked, (one) => one.tenant)) {
    const found = await recoveryActions.heads(
      tenant,
      all.map(({ task }) => task),
    );
    for (const [i, one] of all.entries()) heads.set(one, found[i] ?? null);
  }
  return asked.map((one) => isOwner(heads.get(one) ?? null, one));
}

function isOwner(head: Task | null, { agentId, fence }: Ownership): boolean {
  if (head === null || isEnded(head.state)) return false;
  return head.owner === agentId && head.fence === fence;
}
