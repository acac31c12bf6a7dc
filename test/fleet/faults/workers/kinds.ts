/** The tasks of workers: of each kind something else becomes, which follows from the name. */

export const KINDS = [
  /** Whoever has it works, and may be killed, frozen or hang, or fail in one way or another: it gets done. */
  "sound",
  /** Each agent fails at the same item. */
  "loop",
  /** Each agent writes checkpoints that look like progress, and fails. */
  "junk",
  /** Each agent gets an item done that nobody asked for, and fails. */
  "inventive",
  /** Cannot be done by anybody, says the agent. */
  "fatal",
  /** Its newest checkpoint is damaged, and then its agent is killed. */
  "corrupt",
  /** The same with an earlier checkpoint, which the newest goes back to. */
  "broken",
  /** In a process that no fault strikes. */
  "healthy",
] as const;
export type Kind = (typeof KINDS)[number];

/** Those that a fleet starts, by share of a hundred. */
export const SHARES: readonly (readonly [share: number, kind: Kind])[] = [
  [62, "sound"],
  [9, "loop"],
  [6, "junk"],
  [3, "inventive"],
  [5, "fatal"],
  [9, "corrupt"],
  [6, "broken"],
];
/** They need somebody who reaches into the store. */
export const DAMAGED: ReadonlySet<Kind> = new Set(["corrupt", "broken"]);

export const WORKER = "worker";
export const HEALTHY = "healthy";
/** Agents that a runner starts. */
export const HIRED = "hired";
/** Of the tasks that nobody has to damage, so many are theirs, where there is a runner. */
export const HIRED_SHARE = 0.15;

/** How often workers say that they live. */
export const HEARTBEAT_MS = 700;

export const ITEMS = 6;
/** So many items are done before the trouble of the kind begins. */
export const TROUBLE_AT = 2;

export const taskName = (kind: Kind, n: number): string => `${kind}-${n}`;

/** null: a task of others. */
export function kindOf(task: string): Kind | null {
  const [kind] = task.split("-");
  return KINDS.find((one) => one === kind) ?? null;
}
