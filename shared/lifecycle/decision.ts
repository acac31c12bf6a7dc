/** A decision: the transitions of one transaction. Each begins with the task that the one before it left. */
import type { Handoff } from "../protocol/handoff-record.ts";
import type { Offer } from "../protocol/offer.ts";
import { DEFAULT_POLICIES, type Policies } from "../protocol/policy.ts";
import type { RecoveryState } from "../protocol/recovery-states.ts";
import { apply } from "./apply.ts";
import { recoveryStateOf, type TaskRecord } from "./task.ts";
import type {
  AuditFacts,
  AuditOp,
  CheckpointChange,
  EventFact,
  HandoffUpdate,
  Texts,
  Transition,
} from "./transition.ts";

/** The context of a decision besides the task and the input. */
export interface Circumstances {
  readonly tenant: string;
  readonly task: string;
  /** The agent or service that acts. */
  readonly actor: string;
  readonly nowMs: number;
  readonly policies: Policies;
  /** From 0 to 1. */
  readonly random: () => number;
  /** The fence below which a task that begins has none: agents of the future that a restore has undone may hold those. Default 0. */
  readonly fenceFloor?: number | undefined;
  /** Kept in handoffs and failures, so that a trace crosses the bus. */
  readonly traceparent?: string | undefined;
}

/** The task with its open handoff; null: the task does not exist, no handoff is open. */
export interface Aggregate {
  readonly task: TaskRecord | null;
  readonly handoff: Handoff | null;
}

interface NewTransition {
  readonly facts?: AuditFacts;
  readonly event: EventFact;
  readonly checkpoint?: CheckpointChange;
  readonly handoff?: HandoffUpdate;
  readonly offer?: Offer;
  readonly texts?: Texts;
}

/** Transitions that state the recovery's state before and after them. */
const OF_RECOVERY: ReadonlySet<AuditOp> = new Set(["fail", "recover", "resume", "settle", "retry", "block"]);

export class Decision {
  readonly transitions: Transition[] = [];
  readonly circumstances: Circumstances;
  readonly at: string;
  #task: TaskRecord | null;
  #handoff: Handoff | null;
  #recovery: RecoveryState;

  constructor(circumstances: Circumstances, { task, handoff }: Aggregate) {
    this.circumstances = circumstances;
    this.at = new Date(circumstances.nowMs).toISOString();
    this.#task = task;
    this.#handoff = handoff;
    this.#recovery = task === null ? "idle" : recoveryStateOf(task);
  }

  /** The task as it is now. Only for a task that exists. */
  get task(): TaskRecord {
    return this.#task as TaskRecord;
  }

  /** The open handoff as it is now. */
  get handoff(): Handoff | null {
    return this.#handoff;
  }

  add(op: AuditOp, { facts: own = {}, event, checkpoint, handoff, offer, texts }: NewTransition): this {
    const { actor, fenceFloor = 0 } = this.circumstances;
    const facts = this.#task === null && fenceFloor > 0 ? { ...own, fence_floor: fenceFloor } : own;
    const change = { op, at: this.at, actor, checkpointId: checkpoint?.id ?? null, facts };
    const after = apply(this.#task, this.circumstances, change, texts);
    const recoveryFacts = OF_RECOVERY.has(op) ? this.#recoveryFacts(after) : {};
    this.transitions.push({
      op,
      checkpoint: checkpoint ?? null,
      facts: { ...recoveryFacts, ...facts },
      event,
      ...(handoff !== undefined && { handoff }),
      ...(offer !== undefined && { offer }),
      task: after,
    });
    this.#task = after;
    if (handoff !== undefined) this.#handoff = handoff.after.ended_at === null ? handoff.after : null;
    return this;
  }

  #recoveryFacts(after: TaskRecord): AuditFacts {
    const from = this.#recovery;
    this.#recovery = recoveryStateOf(after);
    return { recovery_from: from, recovery_to: this.#recovery };
  }
}

/** The decision of a service whose transitions touch neither the open handoff nor the policies. */
export function decisionOfService(task: TaskRecord, actor: string, nowMs: number): Decision {
  const { tenant, task_id } = task;
  const circumstances = {
    tenant,
    task: task_id,
    actor,
    nowMs,
    policies: DEFAULT_POLICIES,
    random: Math.random,
  };
  return new Decision(circumstances, { task, handoff: null });
}

/** A transition that only adds an entry to the trail of the task. */
export function annotate(
  task: TaskRecord,
  actor: string,
  nowMs: number,
  op: "quarantine" | "restore" | "refuse" | "fork",
  transition: NewTransition,
): readonly Transition[] {
  return decisionOfService(task, actor, nowMs).add(op, transition).transitions;
}
