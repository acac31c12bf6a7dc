/** What both acts promise of a task, looked up in the fleet and not in what its agents said. */
import type { Checkpoint, FleetClient, Task } from "../../shared/sdk/sdk.ts";
import type { Timeline } from "./timeline.ts";
import type { Witness } from "./witness.ts";

/** Whether a promise held, and what it was. */
export type Check = readonly [boolean, string];

/** What the fleet kept of a task. */
export interface Kept {
  readonly checkpoints: readonly Checkpoint[];
  readonly last: Checkpoint | undefined;
  readonly task: Task | null;
}

export async function kept(client: FleetClient, taskId: string): Promise<Kept> {
  // A page that holds something corrupt is shorter: the chain is broken then.
  const { checkpoints } = await client.getCheckpointHistory(taskId, { order: "oldest", limit: 100 });
  return { checkpoints, last: checkpoints.at(-1), task: await client.getTask(taskId) };
}

/** Promises about every task. */
export async function commonChecks(
  client: FleetClient,
  witness: Witness,
  { checkpoints, last, task }: Kept,
): Promise<Check[]> {
  const audit = await client.verifyAudit(witness.taskId);
  // What has not come then is missed below.
  await witness.until("all events have come", () => witness.events.length >= audit.entries).catch(() => {});
  const agents = new Set(checkpoints.map(({ metadata }) => metadata.agent_id));
  return [
    [
      isChain(checkpoints),
      `${checkpoints.length} checkpoints, each linked to the one before it, by ${[...agents].join(", ")}`,
    ],
    [audit.ok, `audit trail verifies: ${audit.entries} entries, head ${audit.head.slice(0, 16)}…`],
    [
      task?.state === "completed" && last?.metadata.final_status === "succeeded",
      `task ${task?.state}, finalized as ${last?.metadata.final_status}`,
    ],
    [
      witness.events.length === audit.entries &&
        witness.events.every(({ sequence }, i) => sequence === i + 1),
      `${witness.events.length} events arrived, in order, one for each transition`,
    ],
  ];
}

export function tellChecks(timeline: Timeline, checks: readonly Check[]): boolean {
  for (const [held, text] of checks) timeline.say(held ? "✓" : "✗", text, held ? "good" : "bad");
  return checks.every(([held]) => held);
}

function isChain(checkpoints: readonly Checkpoint[]): boolean {
  return checkpoints.every(({ metadata }, i) => {
    const before = checkpoints[i - 1]?.metadata.checkpoint_id;
    return before === undefined ? metadata.parent_ids.length === 0 : metadata.parent_ids.includes(before);
  });
}
