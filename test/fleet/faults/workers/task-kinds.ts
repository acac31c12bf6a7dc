/** The kinds of workers' tasks. The kind is part of the task's name and determines how the task ends. */

export const TASK_KINDS = [
  /** Its agents work and may be killed, paused, hang or fail; the task is completed. */
  "normal",
  /** Each agent fails at the same item. */
  "loop",
  /** Each agent writes checkpoints without progress, and fails. */
  "junk",
  /** Each agent completes an item that is not in the task, and fails. */
  "inventive",
  /** The agent reports that the task is impossible. */
  "fatal",
  /** The newest checkpoint is damaged, and then the agent is killed. */
  "corrupt",
  /** The same with an ancestor of the newest checkpoint. */
  "broken",
  /** The agent's process has no faults. */
  "healthy",
] as const;
export type TaskKind = (typeof TASK_KINDS)[number];

/** The kinds of the started tasks with their shares of a hundred. */
export const SHARES: readonly (readonly [share: number, kind: TaskKind])[] = [
  [62, "normal"],
  [9, "loop"],
  [6, "junk"],
  [3, "inventive"],
  [5, "fatal"],
  [9, "corrupt"],
  [6, "broken"],
];
/** The kinds that need access to the store. */
export const DAMAGED: ReadonlySet<TaskKind> = new Set(["corrupt", "broken"]);

export const WORKER = "worker";
export const HEALTHY = "healthy";
/** The agent type of the agents that a runner starts. */
export const LAUNCHED = "launched";
/** The share of the undamaged tasks for these agents, if there is a runner. */
export const LAUNCHED_SHARE = 0.15;

/** The heartbeat interval of workers. */
export const HEARTBEAT_MS = 700;

export const ITEMS = 6;
/** The number of completed items after which the failure of the kind begins. */
export const FAILURE_AT = 2;

export const taskName = (kind: TaskKind, n: number): string => `${kind}-${n}`;

/** Returns null for the task of another program. */
export function kindOf(task: string): TaskKind | null {
  const [kind] = task.split("-");
  return TASK_KINDS.find((one) => one === kind) ?? null;
}
