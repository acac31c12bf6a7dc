/**
 * The check of the removals: each has a reason that applies, and removes nothing that a hold, a retention policy, an open handoff, a recovery
 * or the newest state of the task needs. The evidence are the entries before the removal and the commands as they were sent.
 */
import type { CheckpointInput } from "../../../../../shared/protocol/checkpoint.ts";
import { type HandoffState, isOpenHandoff } from "../../../../../shared/protocol/handoff-states.ts";
import { DEFAULT_RETENTION } from "../../../../../shared/protocol/retention.ts";
import { POLICY } from "../../environment/policy.ts";
import { damagedBefore, removedBefore } from "../damaged.ts";
import type { Entry, Evidence, FinalTask, Violation } from "../evidence.ts";
import { isTainted, type Lineage, type Losses, lineagesOf } from "../lineage.ts";
import { checkTombstones } from "./tombstones.ts";

const { keep: KEEP, max: MAX } = POLICY.defaults.retention;
/** A sweep verifies a checkpoint before it removes it, and may be paused in between. Damage of that time proves nothing. */
const PAUSED_MS = 15_000;
/** A recovery needs the newest sound checkpoint and the one before it. */
const POINTS = 2;

export function checkRemovals(evidence: Evidence): Violation[] {
  return [...evidence.finalState.tasks.values()].flatMap((task) => [
    ...checkTombstones(task),
    ...checkNeeds(task, evidence),
  ]);
}

/** The number of removals by reason, and of those that were refused because something needs the checkpoint. */
export function countRemovals({ attempts, finalState }: Evidence): Record<string, number> {
  const counts: Record<string, number> = {};
  const count = (name: string): void => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
  for (const { entries } of finalState.tasks.values()) {
    for (const { op, reason, holds } of entries) {
      if (op === "remove") count(`removed: ${reason}`);
      if (op === "hold") count(holds?.length === 0 ? "holds released" : "holds placed");
    }
  }
  for (const { op, copy, code } of attempts)
    if (op === "remove" && copy === undefined && code === "CONFLICT") count("refused");
  return counts;
}

/** The task by the entries before the removal. */
interface TaskBefore {
  readonly holds: readonly string[];
  /** The created and not removed checkpoints, the oldest first. */
  readonly living: readonly string[];
  readonly handoffs: ReadonlySet<string>;
  /** The checkpoint from which the open attempt at a recovery continues. */
  readonly recoversFrom: string | null;
  readonly succeeded: string | null;
  readonly isCompleted: boolean;
}

const NOTHING: TaskBefore = {
  holds: [],
  living: [],
  handoffs: new Set(),
  recoversFrom: null,
  succeeded: null,
  isCompleted: false,
};

const ENDS_ATTEMPT: ReadonlySet<string> = new Set(["resume", "settle", "fail", "retry", "block"]);

function after(before: TaskBefore, entry: Entry): TaskBefore {
  const { op, checkpoint_id: id, handoff_id, handoff_to, state_to } = entry;
  const handoffs = new Set(before.handoffs);
  if (handoff_id !== undefined && handoff_to !== undefined) {
    if (isOpenHandoff(handoff_to as HandoffState)) handoffs.add(handoff_id);
    else handoffs.delete(handoff_id);
  }
  const recoversFrom = ENDS_ATTEMPT.has(op) ? null : before.recoversFrom;
  return {
    holds: op === "hold" ? (entry.holds ?? []) : before.holds,
    living:
      op === "create"
        ? [...before.living, id!]
        : op === "remove"
          ? before.living.filter((one) => one !== id)
          : before.living,
    handoffs,
    recoversFrom: op === "recover" ? (entry.from_checkpoint ?? null) : recoversFrom,
    succeeded: op === "finalize" && entry.final_status === "succeeded" ? id : before.succeeded,
    isCompleted: state_to === "completed",
  };
}

interface Removal {
  readonly id: string;
  readonly entry: Entry;
  readonly before: TaskBefore;
  /** The number of newer checkpoints that exist. */
  readonly newer: number;
  readonly lineages: ReadonlyMap<string, Lineage>;
  readonly finalTask: FinalTask;
  readonly evidence: Evidence;
}

function checkNeeds(finalTask: FinalTask, evidence: Evidence): Violation[] {
  const { task, entries } = finalTask;
  if (!entries.some(({ op }) => op === "remove")) return [];
  const lineages = new Map(lineagesOf(finalTask, evidence.sent).map((one) => [one.id, one]));
  const found: Violation[] = [];
  let before = NOTHING;
  for (const entry of entries) {
    const { seq, op, checkpoint_id: id, reason } = entry;
    // The check of the tombstones reports the removal of a checkpoint that does not exist.
    if (op === "remove" && id !== null && before.living.includes(id)) {
      const newer = before.living.length - 1 - before.living.indexOf(id);
      const removal: Removal = { id, entry, before, newer, lineages, finalTask, evidence };
      const needs = NEEDS.flatMap(([need, isNeeded]) => (isNeeded(removal) ? [need] : []));
      if (needs.length > 0) {
        const details = { seq, checkpoint_id: id, reason, newer, needs };
        const text = "a checkpoint was removed that is needed, or without a reason";
        found.push({ kind: "removal_unjustified", task, text, details });
      }
    }
    before = after(before, entry);
  }
  return found;
}

type Need = readonly [need: string, isNeeded: (removal: Removal) => boolean];

const NEEDS: readonly Need[] = [
  ["a hold is placed on its task", ({ before }) => before.holds.length > 0],
  ["it is the newest checkpoint", ({ newer }) => newer === 0],
  ["its policy promises more time", isPromised],
  ["the open handoff starts from it", startsHandoff],
  ["the open attempt at a recovery starts from it", ({ id, before }) => before.recoversFrom === id],
  [
    "it is the newest successful one, and the task is not completed",
    ({ id, before }) => !before.isCompleted && before.succeeded === id,
  ],
  ["a recovery would continue from it", isRecoveryPoint],
  ["it or an ancestor of it is damaged", isDamaged],
  ["the reason does not apply", (removal) => !REASONS[removal.entry.reason ?? ""]?.(removal)],
];

/** Whether the reason of a removal applies. No checkpoint of a round reaches the age of a removal. */
const REASONS: Readonly<Record<string, (removal: Removal) => boolean>> = {
  count: ({ newer }) => newer >= MAX,
  completed: ({ before }) => before.isCompleted,
  request: (removal) => {
    const { entry, before, newer } = removal;
    return entry.command_id !== null && (before.isCompleted || newer >= keptBy(removal));
  },
};

interface SentBody {
  readonly keep?: number;
  readonly checkpoint?: CheckpointInput;
}

function sentBody({ sent }: Evidence, commandId: string | null): SentBody | undefined {
  const body = sent.get(commandId ?? "")?.body;
  return body === undefined ? undefined : (JSON.parse(body) as SentBody);
}

/** The number of newest checkpoints that the operator's command keeps. */
const keptBy = ({ entry, evidence }: Removal): number => sentBody(evidence, entry.command_id)?.keep ?? KEEP;

function isPromised({ id, entry, finalTask, evidence }: Removal): boolean {
  const created = finalTask.entries.find((one) => one.op === "create" && one.checkpoint_id === id);
  const asked = sentBody(evidence, created?.command_id ?? null)?.checkpoint?.compliance?.retention_policy;
  return [asked, entry.retention_policy].some(
    (policy) => (policy ?? DEFAULT_RETENTION) !== DEFAULT_RETENTION,
  );
}

function startsHandoff({ id, before, evidence }: Removal): boolean {
  const { handoffs } = evidence.finalState;
  return [...before.handoffs].some((handoff) => handoffs.get(handoff)?.checkpoint_id === id);
}

/** The ids of the damaged checkpoints of the task of a removal, by their damage until then. */
function damagedUntil({ entry, finalTask, evidence }: Removal, slackMs: number): Set<string> {
  return damagedBefore(finalTask, evidence, entry.seq, Date.parse(entry.at) - slackMs);
}

/** What is lost at the removal, with these damages. */
function lossesOf({ finalTask, entry }: Removal, damaged: ReadonlySet<string>): Losses {
  return { damaged, removed: removedBefore(finalTask, entry.seq) };
}

function isDamaged(removal: Removal): boolean {
  return isTainted(removal.id, removal.lineages, lossesOf(removal, damagedUntil(removal, PAUSED_MS)));
}

/** Whether the checkpoint is one of the newest sound ones, along the states from which a recovery continues. */
function isRecoveryPoint(removal: Removal): boolean {
  const { id, before, lineages } = removal;
  const damaged = damagedUntil(removal, 0);
  // The sweep may have decided before or after this damage.
  if (damaged.size !== damagedUntil(removal, PAUSED_MS).size) return false;
  const losses = lossesOf(removal, damaged);
  const points: string[] = [];
  const seen = new Set<string>();
  for (let next = before.living.at(-1) ?? null; next !== null && !seen.has(next); ) {
    seen.add(next);
    if (before.living.includes(next) && !isTainted(next, lineages, losses)) points.push(next);
    if (points.length === (before.isCompleted ? 1 : POINTS)) break;
    next = lineages.get(next)?.fallback ?? null;
  }
  return points.includes(id);
}
