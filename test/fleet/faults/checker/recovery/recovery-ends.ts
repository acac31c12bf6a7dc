/**
 * The checks of the final states: every possible task is completed, and every other task is blocked for a true reason, with one alert for an
 * operator.
 */
import type { Alert } from "../../../../../shared/protocol/alerts.ts";
import { POLICY } from "../../environment/policy.ts";
import { kindOf, type TaskKind } from "../../workers/task-kinds.ts";
import { damagedBefore, removedBefore } from "../damaged.ts";
import type { Entry, Evidence, FinalTask, Violation } from "../evidence.ts";
import { timeOf } from "../handoff/handoff-history.ts";
import { ancestorsOf, isTainted, type Lineage, type Losses, lineagesOf } from "../lineage.ts";
import { isProgress, isReset, restoresBudget } from "./recovery-budget.ts";
import { isAttempt, type RecoveryHistory, type RecoveryMove, recoveryReporter } from "./recovery-history.ts";

const { recovery: RULES } = POLICY.defaults;

export function checkRecoveryEnds(evidence: Evidence, histories: readonly RecoveryHistory[]): Violation[] {
  return [
    ...histories.flatMap((history) => [
      ...checkFinalState(history),
      ...checkBlocks(history, evidence),
      ...checkWithdrawn(history),
      ...checkRecoveryPoints(history, evidence),
    ]),
    ...checkAlerts(evidence, histories),
    ...checkKinds(evidence, histories),
  ];
}

function checkFinalState(history: RecoveryHistory): Violation[] {
  const { state, finalTask, moves } = history;
  const isOpen = state === "waiting" || state === "attempted";
  if (!isOpen && (finalTask.head.recovery?.state ?? "idle") === state) return [];
  const found: Violation[] = [];
  const details = { state, stored: finalTask.head.recovery?.state ?? null, seq: moves.at(-1)?.entry.seq };
  recoveryReporter(found, history)(
    "recovery_unfinished",
    "a recovery is still open after all faults are undone, or differs from the fold of its entries",
    details,
  );
  return found;
}

export const blockOf = ({ moves }: RecoveryHistory): Entry | undefined =>
  moves.findLast(({ to }) => to === "blocked")?.entry;

function checkBlocks(history: RecoveryHistory, evidence: Evidence): Violation[] {
  const found: Violation[] = [];
  for (const [i, { entry, failure }] of history.moves.entries()) {
    // The checks of the handoffs cover the blocks of handoffs.
    if (entry.op !== "block" || entry.handoff_id !== undefined) continue;
    if (isRepeated(history, entry)) continue;
    const problem = REASONS[entry.reason ?? ""]?.({
      history,
      entry,
      failure,
      before: history.moves.slice(0, i),
      evidence,
    });
    if (problem === null) continue;
    const { seq, reason } = entry;
    const details = { seq, reason, problem: problem ?? "unknown reason" };
    recoveryReporter(found, history)("recovery_unjustified", "a task was blocked without a cause", details);
  }
  return found;
}

/**
 * Whether the same block applies again: an agent took the blocked task and failed or released it before a checkpoint, or the handoff was
 * cancelled that was to end the block.
 */
function isRepeated(
  { finalTask }: RecoveryHistory,
  { seq, reason, command_id, alerted_seq: alerted }: Entry,
): boolean {
  const cause = finalTask.entries[seq - 2];
  const isUnwritten = (cause?.op === "fail" || cause?.op === "release") && cause.state_from === "blocked";
  const isCancelled = cause?.op === "cancel_handoff" && cause.command_id === command_id;
  const first = finalTask.entries[(alerted ?? 0) - 1];
  return (
    (isUnwritten || isCancelled) && first !== undefined && (first.op !== "block" || first.reason === reason)
  );
}

interface BlockContext {
  readonly history: RecoveryHistory;
  readonly entry: Entry;
  readonly failure: Entry | null;
  readonly before: readonly RecoveryMove[];
  readonly evidence: Evidence;
}

const since = (moves: readonly RecoveryMove[], isBegin: (entry: Entry) => boolean): readonly RecoveryMove[] =>
  moves.slice(1 + moves.findLastIndex(({ entry }) => isBegin(entry)));

/** The checkpoint from which an operator requested the recovery that is open at the end of these moves. */
function namedPoint(moves: readonly RecoveryMove[], { sent }: Pick<Evidence, "sent">): string | null {
  const begin = moves.findLast(({ entry }) => BEGINS.has(entry.op))?.entry;
  const body = begin?.op === "retry" ? sent.get(begin.command_id ?? "")?.body : undefined;
  return body === undefined ? null : ((JSON.parse(body) as { checkpoint_id?: string }).checkpoint_id ?? null);
}

const BEGINS: ReadonlySet<string> = new Set(["fail", "retry", "settle"]);

/** The time for which a verification from before the damage may be used. */
const VERIFIED_MS = 2_000;

/** Whether no recovery can continue: the newest sound checkpoint has a damaged ancestor, or there is none. */
function isChainBroken(lineages: readonly Lineage[], losses: Losses): boolean {
  const newest = lineages.findLast(({ id }) => !losses.damaged.has(id) && !losses.removed.has(id));
  return newest === undefined || isTainted(newest.id, byId(lineages), losses);
}

const byId = (lineages: readonly Lineage[]): ReadonlyMap<string, Lineage> =>
  new Map(lineages.map((one) => [one.id, one]));

/** Returns the reason why a block is not justified, or null. */
const REASONS: Readonly<Record<string, (blocked: BlockContext) => string | null>> = {
  unrecoverable: ({ failure }) =>
    failure?.class === "unrecoverable" ? null : "the failure has another class",
  attempts_spent: ({ before }) => {
    const made = since(before, restoresBudget).filter(({ entry }) => isAttempt(entry));
    const on = (name: string) => made.filter(({ entry }) => entry.rung === name).length;
    return on("previous") >= RULES.previous_attempts ? null : "attempts are left";
  },
  too_many_attempts: ({ before, entry }) => {
    const lately = since(before, isReset).filter(
      (move) => isAttempt(move.entry) && timeOf(move.entry) > timeOf(entry) - RULES.window_ms,
    );
    return lately.length >= RULES.window_attempts ? null : "there were fewer attempts";
  },
  chain_broken: ({ history, entry, before, evidence }) => {
    const damaged = damagedBefore(history.finalTask, evidence, entry.seq, timeOf(entry));
    if (damaged.size === 0) return "no checkpoint was damaged";
    const removed = removedBefore(history.finalTask, entry.seq, timeOf(entry) - VERIFIED_MS);
    const lineages = lineagesOf(history.finalTask, evidence.sent).filter(({ seq }) => seq < entry.seq);
    const named = namedPoint(before, evidence);
    const isBroken =
      named === null
        ? isChainBroken(lineages, { damaged, removed })
        : isTainted(named, byId(lineages), { damaged, removed });
    return isBroken ? null : "the newest valid checkpoint has no damaged ancestor";
  },
  no_checkpoint: ({ history, entry, before, evidence }) => {
    const named = namedPoint(before, evidence);
    if (named !== null && removedBefore(history.finalTask, entry.seq).has(named)) return null;
    const hasAny = history.finalTask.entries.some(({ op, seq }) => op === "create" && seq < entry.seq);
    return hasAny ? "there are checkpoints" : null;
  },
  withdrawn: ({ history, entry }) => {
    const cause = history.finalTask.entries[entry.seq - 2];
    const isOwn = cause?.op === "cancel_handoff" && cause.command_id === entry.command_id;
    return isOwn && cause.reason === "withdrawn" ? null : "no agent cancelled a handoff";
  },
};

/** Checks that the cancellation of a handoff after a failure blocks the task in the same transaction. */
function checkWithdrawn({ task, finalTask, withdrawn }: RecoveryHistory): Violation[] {
  const found: Violation[] = [];
  for (const { seq, command_id, handoff_id } of withdrawn) {
    const next = finalTask.entries[seq];
    if (next?.op === "block" && next.reason === "withdrawn" && next.command_id === command_id) continue;
    const details = { seq, handoff_id, next: next?.op ?? null };
    recoveryReporter(found, { task })(
      "recovery_unfinished",
      "a task has neither an owner nor a block after a failure",
      details,
    );
  }
  return found;
}

/** Checks that no recovery point is damaged or has a damaged ancestor. */
function checkRecoveryPoints(history: RecoveryHistory, evidence: Evidence): Violation[] {
  const found: Violation[] = [];
  const lineages = new Map(lineagesOf(history.finalTask, evidence.sent).map((one) => [one.id, one]));
  for (const { entry } of history.moves.filter((move) => move.entry.op === "recover")) {
    const damaged = damagedBefore(history.finalTask, evidence, entry.seq, timeOf(entry) - VERIFIED_MS);
    const point = lineages.get(entry.from_checkpoint ?? "");
    const removed = removedBefore(history.finalTask, entry.seq);
    const verified = point && [point.id, ...ancestorsOf(point, lineages, removed)];
    const used = verified?.filter((id) => damaged.has(id));
    if (used?.length === 0) continue;
    const details = { seq: entry.seq, from: entry.from_checkpoint, damaged: used ?? null };
    recoveryReporter(found, history)(
      "corrupt_served",
      "an attempt continues from a damaged or missing checkpoint",
      details,
    );
  }
  return found;
}

/** Whether a block is the same as the alerted one: the same reason, without progress or a requested recovery in between. */
function isSameBlock(history: RecoveryHistory, entry: Entry): boolean {
  const { seq, reason, alerted_seq: alerted } = entry;
  if (alerted === undefined) return false;
  if (isRepeated(history, entry)) return true;
  const [first, ...between] = history.finalTask.entries.slice(alerted - 1, seq - 1);
  const isAlerted = first?.op === "block" ? first.reason === reason : first?.handoff_id !== undefined;
  const isOther = (one: Entry): boolean => isProgress(one) || (one.op === "retry" && one.command_id !== null);
  return isAlerted && !between.some(isOther);
}

/** Checks that every block has one alert, and that there are no other alerts. */
function checkAlerts({ finalState }: Evidence, histories: readonly RecoveryHistory[]): Violation[] {
  const found: Violation[] = [];
  const alerted = new Map(
    finalState.alerts.flatMap((alert: Alert) =>
      alert.type === "RECOVERY_BLOCKED" ? [[alert.id, alert]] : [],
    ),
  );
  const byTask = Map.groupBy(alerted.values(), ({ subject }) => subject);
  const needsAlert = (history: RecoveryHistory, entry: Entry): boolean =>
    entry.op === "block" && entry.handoff_id === undefined && !isSameBlock(history, entry);
  const blocksOf = (history: RecoveryHistory): number =>
    history.moves.filter(({ entry }) => needsAlert(history, entry)).length;
  const expected = new Map(histories.map((history) => [history.task, blocksOf(history)]));
  for (const task of new Set([...expected.keys(), ...byTask.keys()])) {
    const [blocks, alerts] = [expected.get(task) ?? 0, byTask.get(task)?.length ?? 0];
    const report = recoveryReporter(found, { task });
    if (alerts < blocks) report("alert_missing", "a task was blocked without an alert", { blocks, alerts });
    if (alerts > blocks)
      report("alert_unfounded", "an alert reports a block that does not exist", { blocks, alerts });
  }
  return found;
}

/** The possible ends of the kinds of tasks: a block reason, or null for completed. Every kind may also spend its budget; see {@link SPENT}. */
const EXPECTED: Readonly<Record<Exclude<TaskKind, "healthy">, readonly (string | null)[]>> = {
  normal: [null],
  corrupt: [null, "chain_broken"],
  loop: [],
  junk: [],
  inventive: [],
  fatal: ["unrecoverable"],
  broken: ["chain_broken", null],
};
const SPENT: ReadonlySet<string> = new Set(["attempts_spent", "too_many_attempts", "no_checkpoint"]);

function isUndamagedAtEnd(finalTask: FinalTask, evidence: Evidence): boolean {
  const damaged = damagedBefore(finalTask, evidence, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);
  const removed = removedBefore(finalTask, Number.POSITIVE_INFINITY);
  return damaged.size === 0 || !isChainBroken(lineagesOf(finalTask, evidence.sent), { damaged, removed });
}

function checkKinds(evidence: Evidence, histories: readonly RecoveryHistory[]): Violation[] {
  const found: Violation[] = [];
  const byTask = new Map(histories.map((history) => [history.task, history]));
  for (const finalTask of evidence.finalState.tasks.values()) {
    const { task, head } = finalTask;
    const kind = kindOf(task);
    if (kind === null || kind === "healthy") continue;
    const history = byTask.get(task);
    const reason = head.state === "completed" ? null : ((history && blockOf(history)?.reason) ?? head.state);
    // A task that was damaged too late continues like any other.
    const isUndamaged = kind !== "broken" || reason !== null || isUndamagedAtEnd(finalTask, evidence);
    if (SPENT.has(reason ?? "") || (EXPECTED[kind].includes(reason) && isUndamaged)) continue;
    const report = recoveryReporter(found, { task });
    report("recovery_unfinished", "a task has another end than its kind", {
      ...{ kind, reason, state: head.state, owner: head.owner, fence: head.fence },
      recovery: head.recovery?.state ?? null,
    });
  }
  return found;
}
