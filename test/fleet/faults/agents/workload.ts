/**
 * What an agent does next. A few agents share tasks and each has one of its own; tasks give way to new ones after a while, so that none
 * grows without end. Everything follows from the agent's seed and what it has seen; nothing is taken from the store's word.
 */
import {
  type CheckpointInput,
  FINAL_STATUSES,
  type FinalStatus,
} from "../../../../shared/protocol/checkpoint.ts";
import type { HandoffDetails } from "../../../../shared/sdk/client/options.ts";
import { createWorkload } from "../../../load/workload.ts";

/** `fence`: the one under which the agent believes to own the task. */
export type WriteStep = { readonly task: string; readonly fence?: number } & (
  | {
      readonly op: "create";
      readonly checkpoint: CheckpointInput;
      readonly expectedVersion?: number;
      /** Of a checkpoint in phase `handoff`. */
      readonly handoff?: HandoffDetails;
    }
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
  | { readonly op: "handoff"; readonly wish: HandoffDetails }
  | { readonly op: "cancel_handoff"; readonly handoffId?: string }
);

export type ReadStep = { readonly task: string } & (
  | { readonly op: "get"; readonly id: string }
  | { readonly op: "latest" | "task" }
  | { readonly op: "history"; readonly limit: number }
);

export type Step = WriteStep | ReadStep;

const READS: ReadonlySet<string> = new Set(["get", "latest", "task", "history"]);
export const isWrite = (step: Step): step is WriteStep => !READS.has(step.op);

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
  /** The handoff that the agent asked for last. */
  handoff: string | undefined;
}

/** All but the last are fought over; the last never has an owner. */
const SHARED_TASKS = 3;
/** Of the agents that are told that they lost a task, so many do not listen. */
const ZOMBIE_SHARE = 0.6;
const CHECKPOINTS_REMEMBERED = 30;
const LARGE_TEXT_CHARS = 80_000;
/** Of the checkpoints of agents, so many are the last one of an agent that hands off. */
const HANDING_OFF_SHARE = 0.12;

/** The agent types that somebody takes offers for. */
export const TAKEN_TYPES = ["implementation", "qa"] as const;

/** Shares of a hundred: most wishes find somebody, some nobody, and some name what does not exist. */
const WISHES: readonly (readonly [share: number, wish: HandoffDetails])[] = [
  [30, { toAgentType: "implementation", reason: "the context is full" }],
  [30, { toAgentType: "qa", reason: "to be tested" }],
  [15, {}],
  [7, { nextPhase: "testing" }],
  [14, { toAgentType: "documentation" }],
  [4, { toAgentType: "astronomy" }],
];

/** Shares of a hundred. A choice that needs a checkpoint, while none is known, becomes a look at the task. */
const SHARES = {
  create: 33,
  update: 18,
  finalize: 3,
  link: 4,
  take: 5,
  release: 1,
  handoff: 4,
  cancel_handoff: 2,
  get: 8,
  latest: 9,
  history: 6,
  task: 7,
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
    if (choice === "create") return this.checkpoint(task, this.#random() < HANDING_OFF_SHARE);
    if (choice === "handoff") return { op: choice, task, wish: this.#wish(), ...fence };
    if (choice === "cancel_handoff") {
      const named = this.#random() < 0.5 ? known.handoff : undefined;
      return { op: choice, task, ...(named !== undefined && { handoffId: named }), ...fence };
    }
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

  /** The fence under which the agent believes to own the task. */
  fenceOf(task: string): number | undefined {
    return this.#task(task).fence;
  }

  handedOff(task: string, handoff: string): void {
    this.#task(task).handoff = handoff;
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

  /** `handsOff`: the last one of an agent that hands off. */
  checkpoint(task: string, handsOff: boolean): WriteStep {
    this.#step += 1;
    const known = this.#task(task);
    const usual = this.#texts.checkpoint(1, this.#step);
    const checkpoint = this.#random() < 0.02 ? enlarged(usual, this.#random) : usual;
    const conditional = this.#random() < 0.3;
    return {
      op: "create",
      task,
      checkpoint: handsOff ? handingOff(checkpoint) : checkpoint,
      ...(handsOff && { handoff: this.#wish() }),
      ...(conditional && { expectedVersion: known.count }),
      ...(known.fence !== undefined && { fence: known.fence }),
    };
  }

  #wish(): HandoffDetails {
    let left = this.#random() * 100;
    for (const [share, wish] of WISHES) {
      left -= share;
      if (left < 0) return wish;
    }
    return {};
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
    const fresh: KnownTask = { checkpoints: [], count: 0, fence: undefined, handoff: undefined };
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

function handingOff(checkpoint: CheckpointInput): CheckpointInput {
  return { ...checkpoint, execution_state: { ...checkpoint.execution_state, phase: "handoff" } };
}

/** Large enough to be stored in several pieces, and not to be compressed into one. */
function enlarged(checkpoint: CheckpointInput, random: () => number): CheckpointInput {
  let text = "";
  while (text.length < LARGE_TEXT_CHARS) text += random().toString(36).slice(2);
  return { ...checkpoint, recovery: { rollback_instructions: text } };
}
