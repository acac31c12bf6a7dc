/** The task after a transition. Only this function changes a task: `decide` uses it to go forward, `replay` to fold an audit trail. Its only
 * inputs are the task before, the entry's own facts and the free texts, which are not audited. */
import type { FinalStatus, StoredFinalStatus } from "../protocol/checkpoint.ts";
import type { BlockReason, RecoveryAction, RecoveryRung } from "../protocol/recovery-states.ts";
import { IMPORT_RULES } from "./import/import-rules.ts";
import { withHolds, withPlaced } from "./retention/hold-rules.ts";
import { SHRED_RULES } from "./retention/shred-rules.ts";
import {
  type Budget,
  budgetOf,
  isLeftToRecovery,
  type TaskRecord,
  takenBlock,
  WHOLE_BUDGET,
  type Work,
} from "./task.ts";
import { type AuditedChange, nullableFact, numberFact, textFact, textsFact } from "./trail/facts.ts";
import { type AuditOp, MISSION_AUDIT_OPS, type Texts } from "./transition.ts";

type Rule = (task: TaskRecord, change: AuditedChange, texts: Texts) => Partial<TaskRecord>;

const UNCHANGED: Rule = () => ({});
/** The time of the last write stays too: it shows whether the owner is alive, and any agent may cause these at any time. */
const UNTOUCHED: Rule = ({ updated_at }) => ({ updated_at });

/** Sorties are worked on by specialists too, which shows nothing about the owner of the task. */
const OF_MISSION = Object.fromEntries(MISSION_AUDIT_OPS.map((op) => [op, UNTOUCHED])) as Record<
  (typeof MISSION_AUDIT_OPS)[number],
  Rule
>;

const RULES: Readonly<Record<AuditOp, Rule>> = {
  create: (task, change) => ({
    ...(change.facts.specialist === "yes"
      ? { ...worked(task, change, task.work), updated_at: task.updated_at }
      : worked(task, change, reopened(task))),
    phase: textFact(change, "phase"),
    agent_id: change.actor,
    agent_type: textFact(change, "agent_type"),
    latest_id: change.checkpointId,
    seq: task.seq + 1,
    ...(task.owner !== null && { owned_seq: task.seq + 1 }),
  }),
  update: (task, change) => ({
    ...worked(task, change, resumedByTaker(task)),
    ...(change.checkpointId === task.latest_id && { phase: textFact(change, "phase") }),
  }),
  link: (task, change) => worked(task, change, resumedByTaker(task)),
  finalize: (task, change) => {
    const status = textFact(change, "final_status") as StoredFinalStatus;
    // No agent acts: neither the state of the task nor the time of its last write changes.
    if (status === "superseded") return { updated_at: task.updated_at };
    // Present in place of the task's end: the completed task is handed off.
    const { completion_seq: completionSeq } = change.facts;
    const isHandedOff = typeof completionSeq === "number";
    const ended = isHandedOff ? null : endOf(status, textFact(change, "phase"));
    const succeeded = status === "succeeded" && { last_successful_id: change.checkpointId };
    if (ended === null) {
      const work = worked(task, change, resumedByTaker(task));
      return { ...work, ...succeeded, ...(isHandedOff && { completion_seq: completionSeq }) };
    }
    return { ...worked(task, change, task.work), ...succeeded, ...endedAs(ended, task) };
  },
  take: (task, change) => ({
    owner: textFact(change, "owner_to"),
    fence: task.fence + 1,
    taken_seq: task.owned_seq,
    work: taken(task.work, textFact(change, "owner_to")),
  }),
  release: ownerless,
  quarantine: UNTOUCHED,
  restore: UNTOUCHED,
  refuse: UNTOUCHED,
  remove: UNTOUCHED,
  signature_add: UNTOUCHED,
  retain: ({ updated_at, retention }, change) => {
    const policy = nullableFact(change, "retention_policy");
    return {
      updated_at,
      retention: withPlaced({ policy, holds: textsFact(change, "holds") }, retention?.placed),
    };
  },
  hold: (task, change) => ({ updated_at: task.updated_at, retention: withHolds(task, change) }),
  fork: UNTOUCHED,
  handoff: (task, change) => {
    const id = textFact(change, "handoff_id");
    if (task.work.kind === "recovering") return { work: { ...task.work, handoff_id: id, accepted: false } };
    const replaces = change.facts.supersedes_recovery === "yes";
    return {
      work: { kind: "handing_off", handoff_id: id, accepted: false },
      alerted: replaces ? null : alertOf(task),
    };
  },
  validate: UNCHANGED,
  offer: UNCHANGED,
  acknowledge: (task, change) => ({
    owner: textFact(change, "owner_to"),
    fence: task.fence + 1,
    taken_seq: task.owned_seq,
    ...(hasHandoff(task.work) && { work: { ...task.work, accepted: true } }),
  }),
  confirm: closed,
  reject: closed,
  escalate: closed,
  lapse: closed,
  cancel_handoff: (task, change) =>
    change.facts.ended_as === "completed" ? endedAs("completed", task) : closed(task, change),
  block: (task, change, { details = null }) => {
    const seq = numberFact(change, "alert_seq");
    return {
      work: {
        kind: "blocked",
        reason: textFact(change, "reason") as BlockReason,
        details,
        at: change.at,
        alert_seq: seq,
        taken_by: null,
        due_at: nullableFact(change, "due_at"),
      },
      alerted: null,
      budget: task.budget && { ...task.budget, resumed: false },
    };
  },
  fail: (task, change, { failure = null, choice = null }) => {
    const budget = budgetOf(task);
    const rung = textFact(change, "rung") as RecoveryRung;
    return {
      ...revoked(task),
      alerted: alertOf(task),
      work: waiting(nullableFact(change, "due_at")),
      budget: {
        ...budget,
        failures: budget.failures + 1,
        attempts_max: numberFact(change, "attempts_max"),
        rung,
        rung_attempts: rung === budget.rung ? budget.rung_attempts : 0,
        avoid_id: nullableFact(change, "avoid_id"),
        action: textFact(change, "action") as RecoveryAction,
        resumed: false,
        failure,
        choice,
        handoff_id: null,
      },
    };
  },
  recover: (task, change) => ({
    // In a store of the first layout the head did not count the items of every checkpoint.
    completed_items: Math.max(task.completed_items, numberFact(change, "items")),
    work: { kind: "recovering", stage: "attempted", due_at: null, handoff_id: null, accepted: false },
    ...(change.facts.before_completion === "yes" && { completion_seq: null }),
    budget: {
      ...counted(budgetOf(task), change),
      avoid_id: task.budget?.avoid_id ?? textFact(change, "from_checkpoint"),
      checkpoint_id: textFact(change, "from_checkpoint"),
      handoff_id: textFact(change, "handoff_id"),
    },
  }),
  resume: (task, change) => ({
    work: { kind: "open" },
    budget: { ...budgetOf(task), resumed: true, resumed_at: change.at },
  }),
  settle: (task, change) => {
    const budget = budgetOf(task);
    if (change.facts.reason === "progress") {
      return {
        budget: { ...budget, ...FRESH, resumed: false },
        ...(isOpenWork(task.work) && { alerted: null }),
      };
    }
    const work = settled(task);
    const alerted = alertOf(task);
    // A handoff blocked the task, and no agent has failed.
    if (task.budget === null) return { work, alerted };
    const isAttempt = typeof change.facts.attempt === "number";
    const spent = isAttempt ? { ...counted(budget, change), checkpoint_id: null, resumed: false } : budget;
    return { work, alerted, budget: { ...spent, choice: null } };
  },
  retry: (task, change, { failure = null, choice = null }) => {
    const budget = budgetOf(task);
    const isProbe = change.facts.probe === "yes";
    return {
      ...revoked(task),
      alerted: isProbe ? alertOf(task) : null,
      work: waiting(change.at),
      budget: {
        ...budget,
        ...(change.facts.reset === "yes" && { ...FRESH, recent: [] }),
        is_probe: isProbe,
        action: "retry",
        resumed: false,
        failure: failure ?? budget.failure,
        choice,
        handoff_id: null,
      },
    };
  },
  ...OF_MISSION,
  ...IMPORT_RULES,
  ...SHRED_RULES,
  store_restore: (task, change) => ({ ...ownerless(task), fence: numberFact(change, "fence_to") }),
};

/** `task` null: the transition begins the task. */
export function apply(
  task: TaskRecord | null,
  place: { readonly tenant: string; readonly task: string },
  change: AuditedChange,
  texts: Texts = {},
): TaskRecord {
  const before = task === null ? newTask(place, change) : withoutOrigin(task);
  return {
    ...before,
    updated_at: change.at,
    ...RULES[change.op](before, change, texts),
    audit_seq: before.audit_seq + 1,
  };
}

/** The task without the origin of its block, which only earlier versions wrote. */
export function withoutOrigin(task: TaskRecord): TaskRecord {
  if (task.work.kind !== "blocked") return task;
  const { by: _by, ...work } = task.work;
  return { ...task, work };
}

function newTask(
  { tenant, task }: { tenant: string; task: string },
  { at, facts }: AuditedChange,
): TaskRecord {
  return {
    task_id: task,
    tenant,
    work: { kind: "open" },
    phase: null,
    agent_id: null,
    agent_type: null,
    latest_id: null,
    last_successful_id: null,
    seq: 0,
    owner: null,
    fence: typeof facts.fence_floor === "number" ? facts.fence_floor : 0,
    owned_seq: 0,
    taken_seq: 0,
    completed_items: 0,
    completion_seq: null,
    budget: null,
    alerted: null,
    retention: null,
    origin: null,
    audit_seq: 0,
    audit_hash: "",
    created_at: at,
    updated_at: at,
  };
}

/** What finalizing a checkpoint ends its task as; null: it does not. A success ends the task only in phase `complete`. */
export function endOf(status: FinalStatus, phase: string): "completed" | "failed" | "cancelled" | null {
  switch (status) {
    case "succeeded":
      return phase === "complete" ? "completed" : null;
    case "failed":
      return "failed";
    case "cancelled":
      return "cancelled";
    case "handed_off":
      return null;
  }
}

/** The parts of a budget that progress or an operator's reset restores. */
const FRESH = {
  failures: WHOLE_BUDGET.failures,
  attempts: WHOLE_BUDGET.attempts,
  rung: WHOLE_BUDGET.rung,
  rung_attempts: WHOLE_BUDGET.rung_attempts,
  avoid_id: WHOLE_BUDGET.avoid_id,
  is_probe: WHOLE_BUDGET.is_probe,
} as const;

/** A new checkpoint opens an ended task, and a blocked one that an agent will continue. */
function reopened(task: TaskRecord): Work {
  const { work } = task;
  if (work.kind === "ended") return { kind: "open" };
  if (work.kind === "blocked" && !isLeftToRecovery(task)) return { kind: "open" };
  return work;
}

/** An operator or agent that took a blocked task continues it with the first thing it writes. */
function resumedByTaker(task: TaskRecord): Work {
  return takenBlock(task) === null ? task.work : { kind: "open" };
}

/** A checkpoint was written: `work` after it, and the number of completed items, of which more are progress. */
function worked(task: TaskRecord, change: AuditedChange, work: Work): Partial<TaskRecord> {
  const items = numberFact(change, "items");
  const isProgress = items > task.completed_items;
  const alerted = task.work.kind === "blocked" && work.kind !== "blocked" ? alertOf(task) : task.alerted;
  return {
    work,
    completed_items: isProgress ? items : task.completed_items,
    // After progress the next block is a new one, of which operators are alerted again.
    alerted: isProgress && isOpenWork(work) ? null : alerted,
  };
}

function isOpenWork({ kind }: Work): boolean {
  return kind === "open" || kind === "handing_off" || kind === "ended";
}

type WithHandoff = Extract<Work, { handoff_id: unknown }>;

function hasHandoff(work: Work): work is WithHandoff {
  return work.kind === "handing_off" || work.kind === "recovering";
}

function taken(work: Work, owner: string): Work {
  if (work.kind === "handing_off") return { kind: "open" };
  return work.kind === "blocked" ? { ...work, taken_by: owner, due_at: null } : work;
}

function closed({ work }: TaskRecord, change: AuditedChange): Partial<TaskRecord> {
  if (!hasHandoff(work) || work.handoff_id !== textFact(change, "handoff_id")) return {};
  if (work.kind === "handing_off") return { work: { kind: "open" } };
  return { work: { ...work, handoff_id: null, accepted: false } };
}

function endedAs(as: Extract<Work, { kind: "ended" }>["as"], { budget }: TaskRecord): Partial<TaskRecord> {
  return {
    work: { kind: "ended", as },
    alerted: null,
    completion_seq: null,
    budget: budget && { ...budget, resumed: false, choice: null },
  };
}

/** The owner loses the task: no command under its fence is accepted any more. */
function revoked({ fence }: TaskRecord): Partial<TaskRecord> {
  return { owner: null, fence: fence + 1 };
}

/** The owner is gone, and the fence stays. */
function ownerless(task: TaskRecord): Partial<TaskRecord> {
  const block = takenBlock(task);
  return { owner: null, ...(block !== null && { work: { ...block, taken_by: null } }) };
}

/** The recovery is over. A blocked task that an agent has taken stays blocked until this agent writes. */
function settled(task: TaskRecord): Work {
  const { work } = task;
  const isOver = work.kind === "recovering" || (work.kind === "blocked" && work.taken_by === null);
  return isOver ? { kind: "open" } : work;
}

function waiting(dueAt: string | null): Work {
  return { kind: "recovering", stage: "waiting", due_at: dueAt, handoff_id: null, accepted: false };
}

/** The block whose alert still holds. */
function alertOf({ work, alerted }: TaskRecord): TaskRecord["alerted"] {
  return work.kind === "blocked" ? { reason: work.reason, seq: work.alert_seq } : alerted;
}

/** One attempt more, of which `window` lie in the policy's window, this one included. */
function counted(budget: Budget, change: AuditedChange): Budget {
  const inWindow = numberFact(change, "window");
  return {
    ...budget,
    attempts: budget.attempts + 1,
    rung_attempts: budget.rung_attempts + 1,
    recent: [...budget.recent, change.at].slice(-inWindow),
    attempted_at: change.at,
    resumed_at: null,
  };
}
