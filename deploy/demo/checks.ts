/** The checks that every part of the demo makes of its tasks, against the fleet's records and not against the messages of the agents. */
import type { Checkpoint, FleetClient, Task } from "../../shared/sdk/sdk.ts";
import type { TaskObserver } from "./task-observer.ts";
import type { Timeline } from "./timeline.ts";

/** Whether a check passed, and its description. */
export type CheckResult = readonly [passed: boolean, description: string];

/** The fleet's records of a task. */
export interface TaskRecords {
  readonly checkpoints: readonly Checkpoint[];
  readonly last: Checkpoint | undefined;
  readonly task: Task | null;
}

export async function readRecords(client: FleetClient, taskId: string): Promise<TaskRecords> {
  // A corrupt checkpoint is missing from the page, so the chain check fails.
  const { checkpoints } = await client.getCheckpointHistory(taskId, { order: "oldest", limit: 100 });
  return { checkpoints, last: checkpoints.at(-1), task: await client.getTask(taskId) };
}

/** The checks of every task. */
export async function commonChecks(
  client: FleetClient,
  observer: TaskObserver,
  { checkpoints, last, task }: TaskRecords,
): Promise<CheckResult[]> {
  const audit = await client.verifyAudit(observer.taskId);
  // If an event is still missing after that, the last check fails.
  await observer
    .until("all events have arrived", () => observer.events.length >= audit.entries)
    .catch(() => {});
  const agents = new Set(checkpoints.map(({ metadata }) => metadata.agent_id));
  return [
    [
      isChain(checkpoints),
      `${checkpoints.length} checkpoints, each linked to its parent, by ${[...agents].join(", ")}`,
    ],
    [audit.ok, `audit trail is valid: ${audit.entries} entries, head ${audit.head.slice(0, 16)}…`],
    [
      task?.state === "completed" && last?.metadata.final_status === "succeeded",
      `task ${task?.state}, finalized as ${last?.metadata.final_status}`,
    ],
    [
      observer.events.length === audit.entries &&
        observer.events.every(({ sequence }, i) => sequence === i + 1),
      `${observer.events.length} events arrived in order, one for each transition`,
    ],
  ];
}

export function printChecks(timeline: Timeline, checks: readonly CheckResult[]): boolean {
  for (const [passed, text] of checks) timeline.print(passed ? "✓" : "✗", text, passed ? "good" : "bad");
  return checks.every(([passed]) => passed);
}

function isChain(checkpoints: readonly Checkpoint[]): boolean {
  return checkpoints.every(({ metadata }, i) => {
    const before = checkpoints[i - 1]?.metadata.checkpoint_id;
    return before === undefined ? metadata.parent_ids.length === 0 : metadata.parent_ids.includes(before);
  });
}
