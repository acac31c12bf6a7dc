/**
 * What an agent does next. A few agents share tasks and each has one of its own; tasks give way to new ones after a while, so that none
 * grows without end. Everything follows from the agent's seed and what it has seen; nothing is taken from the store's word.
 */
import {
  type CheckpointInput,
  FINAL_STATUSES,
  type FinalStatus,
} from "../../../shared/protocol/checkpoint.ts";
import { createWorkload } from "../../load/workload.ts";

/** `fence`: the one under which the agent believes to own the task. */
export type WriteStep = { readonly task: string; readonly fence?: number } & (
  | { readonly op: "create"; readonly checkpoint: CheckpointInput; readonly expectedVersion?: number }
  | {
      readonly op: "update";
      readonly id: string;
      readonly patch: Record<string, unknown>;
      readonly expectedVersion?: number;
    }
  | { readonly op: "finalize"; readonly id: string; readonly status: FinalStatus }
  | { readonly op: "link"; readonly parent: string; readonly child: string }
  | { readonly op: "take"; readonly expectedFence?: number }
  | { readonly op: "release"; readonly fence: number }
);

export type ReadStep = { readonly task: string } & (
  | { readonly op: "get"; readonly id: string }
  | { readonly op: "latest" | "task" }
  | { readonly op: "history"; readonly limit: number }
);

export type Step = WriteStep | ReadStep;

const WRITES: ReadonlySet<string> = new Set(["create", "update", "finalize", "link", "take", "release"]);
export const isWrite = (step: Step): step is WriteStep => WRITES.has(step.op);

interface KnownCheckpoint {
  readonly id: string;
  version: number;
}

/** What one agent remembers of one task. */
interface KnownTask {
  readonly checkpoints: KnownCheckpoint[];
  /** How many checkpoints the task had when the agent looked last. */
  count: number;
  /** Under which the agent took the task; it learns only by being refused that it no longer counts. */
  fence: number | undefined;
}

/** All but the last are fought over; the last never has an owner. */
const SHARED_TASKS = 3;
/** Of the agents that are told that they lost a task, so many do not listen. */
const ZOMBIE_SHARE = 0.6;
const CHECKPOINTS_REMEMBERED = 30;
const LARGE_TEXT_CHARS = 80_000;

/** Shares of a hundred. A choice that needs a checkpoint, while none is known, becomes a look at the task. */
const SHARES = {
  create: 33,
  update: 20,
  finalize: 4,
  link: 5,
  take: 5,
  release: 1,
  get: 9,
  latest: 9,
  history: 6,
  task: 8,
} as const;
type Choice = keyof typeof SHARES;

export class AgentMind {
  readonly #random: () => number;
  readonly #name: string;
  readonly #texts: ReturnType<typeof createWorkload>;
  readonly #known = new Map<string, KnownTask>();
  #step = 0;

  constructor(name: string, seed: number, random: () => number) {
    this.#name = name;
    this.#random = random;
    this.#texts = createWorkload(seed);
  }

  /** `generation` grows with time, the same for all agents. */
  next(generation: number): Step {
    const place = this.#below(SHARED_TASKS);
    const isShared = this.#random() < 0.65;
    const task = isShared ? `shared-${generation}-${place}` : `own-${generation}-${this.#name}`;
    const known = this.#task(task);
    const choice = this.#choice();
    const one = this.#pick(known.checkpoints);
    const fence = known.fence === undefined ? {} : { fence: known.fence };
    if (choice === "create") return { ...this.#create(task, known), ...fence };
    if (choice === "history") return { op: choice, task, limit: 1 + this.#below(40) };
    if (choice === "take" && (!isShared || place < SHARED_TASKS - 1)) {
      return { op: choice, task, ...(this.#random() < 0.3 && { expectedFence: known.fence ?? 0 }) };
    }
    if (choice === "release" && known.fence !== undefined) return { op: choice, task, fence: known.fence };
    if (one === undefined || choice === "task") return { op: "task", task };
    switch (choice) {
      case "update":
        return {
          op: choice,
          task,
          id: one.id,
          patch: this.#patch(),
          ...fence,
          ...(this.#random() < 0.4 && { expectedVersion: one.version }),
        };
      case "finalize":
        return { op: choice, task, id: one.id, status: this.#pick(FINAL_STATUSES)!, ...fence };
      case "link":
        return { op: choice, task, parent: this.#pick(known.checkpoints)!.id, child: one.id, ...fence };
      case "get":
        return { op: choice, task, id: one.id };
      default:
        return { op: "latest", task };
    }
  }

  /** `undefined`: the task was given back. */
  owns(task: string, fence: number | undefined): void {
    this.#task(task).fence = fence;
  }

  /** Another agent has the task now; this one may go on as if it had not heard. */
  wasFenced(task: string): void {
    if (this.#random() >= ZOMBIE_SHARE) this.#task(task).fence = undefined;
  }

  /** Remembers what was answered or read. */
  saw(
    task: string,
    checkpoint: { readonly id: string; readonly version: number; readonly seq: number },
  ): void {
    const known = this.#task(task);
    known.count = Math.max(known.count, checkpoint.seq);
    const same = known.checkpoints.find(({ id }) => id === checkpoint.id);
    if (same !== undefined) same.version = Math.max(same.version, checkpoint.version);
    else known.checkpoints.push({ id: checkpoint.id, version: checkpoint.version });
    if (known.checkpoints.length > CHECKPOINTS_REMEMBERED) known.checkpoints.shift();
  }

  #create(task: string, known: KnownTask): WriteStep {
    this.#step += 1;
    const checkpoint = this.#texts.checkpoint(1, this.#step);
    const isLarge = this.#random() < 0.02;
    const conditional = this.#random() < 0.3;
    return {
      op: "create",
      task,
      checkpoint: isLarge ? enlarged(checkpoint, this.#random) : checkpoint,
      ...(conditional && { expectedVersion: known.count }),
    };
  }

  #patch(): Record<string, unknown> {
    const progress = {
      progress_percent: this.#below(101),
      current_focus: `${this.#name} at step ${this.#step}`,
    };
    return {
      execution_state: progress,
      ...(this.#random() < 0.2 && { metadata: { labels: { by: this.#name } } }),
    };
  }

  #choice(): Choice {
    let left = this.#random() * 100;
    for (const [choice, share] of Object.entries(SHARES)) {
      left -= share;
      if (left < 0) return choice as Choice;
    }
    return "latest";
  }

  #task(task: string): KnownTask {
    const known = this.#known.get(task);
    if (known !== undefined) return known;
    const fresh: KnownTask = { checkpoints: [], count: 0, fence: undefined };
    this.#known.set(task, fresh);
    return fresh;
  }

  #below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[this.#below(items.length)];
  }
}

/** Large enough to be stored in several pieces, and not to be compressed into one. */
function enlarged(checkpoint: CheckpointInput, random: () => number): CheckpointInput {
  let text = "";
  while (text.length < LARGE_TEXT_CHARS) text += random().toString(36).slice(2);
  return { ...checkpoint, recovery: { rollback_instructions: text } };
}
