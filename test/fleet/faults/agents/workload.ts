/**
 * The next step of an agent. Agents share some tasks, and each agent has one of its own. After some time new tasks replace the old ones, so
 * that no task grows without limit. The steps depend on the agent's seed and on its own observations only, not on the store's state.
 */
import {
  type CheckpointInput,
  FINAL_STATUSES,
  type FinalStatus,
} from "../../../../shared/protocol/checkpoint.ts";
import type { HandoffDetails } from "../../../../shared/sdk/client/options.ts";
import type { Workload } from "../../../load/workload.ts";

/** `fence` is the fence under which the agent believes that it owns the task. */
export type WriteStep = { readonly task: string; readonly fence?: number } & (
  | {
      readonly op: "create";
      readonly checkpoint: CheckpointInput;
      readonly expectedVersion?: number;
      /** The requested handoff of a checkpoint in phase `handoff`. */
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
  | { readonly op: "handoff"; readonly options: HandoffDetails }
  | { readonly op: "cancel_handoff"; readonly handoffId?: string }
);

export type ReadStep = { readonly task: string } & (
  | { readonly op: "get"; readonly id: string }
  | { readonly op: "latest" | "task" }
  | { readonly op: "history"; readonly limit: number }
);

export type WorkloadStep = WriteStep | ReadStep;

const READS: ReadonlySet<string> = new Set(["get", "latest", "task", "history"]);
export const isWrite = (step: WorkloadStep): step is WriteStep => !READS.has(step.op);

interface KnownCheckpoint {
  readonly id: string;
  version: number;
}

/** The knowledge of one agent about one task. */
interface KnownTask {
  readonly checkpoints: KnownCheckpoint[];
  /** The number of checkpoints in the agent's last observation. */
  count: number;
  /** The fence under which the agent took the task. A refusal is the only sign that it is superseded. */
  fence: number | undefined;
  /** The last handoff that the agent requested. */
  handoff: string | undefined;
}

/** Agents compete for all shared tasks but the last one, which never has an owner. */
const SHARED_TASKS = 3;
/** The share of the superseded agents that continue after the refusal. */
const ZOMBIE_SHARE = 0.6;
const KNOWN_CHECKPOINTS_MAX = 30;
const LARGE_TEXT_CHARS = 80_000;
/** The share of the checkpoints with a retention policy that promises more time than a round has. */
const PROMISED_SHARE = 0.05;
/** The share of the checkpoints with which an agent hands off. */
const HANDOFF_SHARE = 0.12;

/** The agent types that accept offers. */
export const TAKEN_TYPES = ["implementation", "qa"] as const;

/** The requested handoffs with their shares of a hundred: most find an agent, some do not, and some name an unknown type. */
const REQUESTS: readonly (readonly [share: number, request: HandoffDetails])[] = [
  [30, { toAgentType: "implementation", reason: "the context is full" }],
  [30, { toAgentType: "qa", reason: "to be tested" }],
  [15, {}],
  [7, { nextPhase: "testing" }],
  [14, { toAgentType: "documentation" }],
  [4, { toAgentType: "astronomy" }],
];

/** The operations with their shares of a hundred. An operation that needs a checkpoint becomes a query of the task while none is known. */
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

export class AgentBehaviour {
  readonly #random: () => number;
  readonly #name: string;
  readonly #texts: Pick<Workload, "checkpoint">;
  readonly #known = new Map<string, KnownTask>();
  #step = 0;

  constructor(name: string, texts: Pick<Workload, "checkpoint">, random: () => number) {
    this.#name = name;
    this.#random = random;
    this.#texts = texts;
  }

  /** `generation` grows with time and is the same for all agents. */
  next(generation: number): WorkloadStep {
    const index = this.#below(SHARED_TASKS);
    const isShared = this.#random() < 0.65;
    const task = isShared ? `shared-${generation}-${index}` : `own-${generation}-${this.#name}`;
    const known = this.#task(task);
    const choice = this.#choice();
    const one = this.#pick(known.checkpoints);
    const fence = known.fence === undefined ? {} : { fence: known.fence };
    if (choice === "create") return this.checkpoint(task, this.#random() < HANDOFF_SHARE);
    if (choice === "handoff") return { op: choice, task, options: this.#request(), ...fence };
    if (choice === "cancel_handoff") {
      const named = this.#random() < 0.5 ? known.handoff : undefined;
      return { op: choice, task, ...(named !== undefined && { handoffId: named }), ...fence };
    }
    if (choice === "history") return { op: choice, task, limit: 1 + this.#below(40) };
    if (choice === "take" && (!isShared || index < SHARED_TASKS - 1)) {
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

  /** Notes the fence of a take; undefined after a release. */
  owns(task: string, fence: number | undefined): void {
    this.#task(task).fence = fence;
  }

  /** Another agent owns the task. This agent may continue as a zombie. */
  wasFenced(task: string): void {
    if (this.#random() >= ZOMBIE_SHARE) this.#task(task).fence = undefined;
  }

  /** The fence under which the agent believes that it owns the task. */
  fenceOf(task: string): number | undefined {
    return this.#task(task).fence;
  }

  handedOff(task: string, handoff: string): void {
    this.#task(task).handoff = handoff;
  }

  /** Notes a checkpoint of an answer or a read. */
  saw(
    task: string,
    checkpoint: { readonly id: string; readonly version: number; readonly seq: number },
  ): void {
    const known = this.#task(task);
    known.count = Math.max(known.count, checkpoint.seq);
    const same = known.checkpoints.find(({ id }) => id === checkpoint.id);
    if (same !== undefined) same.version = Math.max(same.version, checkpoint.version);
    else known.checkpoints.push({ id: checkpoint.id, version: checkpoint.version });
    if (known.checkpoints.length > KNOWN_CHECKPOINTS_MAX) known.checkpoints.shift();
  }

  /** A create step; with `handsOff` the checkpoint requests a handoff. */
  checkpoint(task: string, handsOff: boolean): WriteStep {
    this.#step += 1;
    const known = this.#task(task);
    const usual = this.#texts.checkpoint(1, this.#step);
    const plain = this.#random() < 0.02 ? enlarged(usual, this.#random) : usual;
    const isPromised = this.#random() < PROMISED_SHARE;
    const checkpoint = isPromised ? { ...plain, compliance: { retention_policy: "short" } } : plain;
    const conditional = this.#random() < 0.3;
    return {
      op: "create",
      task,
      checkpoint: handsOff ? inHandoffPhase(checkpoint) : checkpoint,
      ...(handsOff && { handoff: this.#request() }),
      ...(conditional && { expectedVersion: known.count }),
      ...(known.fence !== undefined && { fence: known.fence }),
    };
  }

  #request(): HandoffDetails {
    let left = this.#random() * 100;
    for (const [share, request] of REQUESTS) {
      left -= share;
      if (left < 0) return request;
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

function inHandoffPhase(checkpoint: CheckpointInput): CheckpointInput {
  return { ...checkpoint, execution_state: { ...checkpoint.execution_state, phase: "handoff" } };
}

/** Text that is too large for one stored chunk, even after compression. */
function enlarged(checkpoint: CheckpointInput, random: () => number): CheckpointInput {
  let text = "";
  while (text.length < LARGE_TEXT_CHARS) text += random().toString(36).slice(2);
  return { ...checkpoint, recovery: { rollback_instructions: text } };
}
