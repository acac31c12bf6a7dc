/**
 * Where the tasks ended: work that can be done is done, what cannot be done waits for a person who was told so, once, and for a reason
 * that is true.
 */
import type { Alert } from "../../../../../shared/protocol/alerts.ts";
import { POLICY } from "../../environment/policy.ts";
import { type Kind, kindOf } from "../../workers/kinds.ts";
import type { Entry, Evidence, TaskTruth, Violation } from "../evidence.ts";
import { timeOf } from "../handoff/handoff-history.ts";
import { lineagesOf } from "../lineage.ts";
import { isProgress } from "./recovery-budget.ts";
import { isAttempt, type RecoveryMove, type RecoveryStory, sayingOf } from "./recovery-history.ts";

const { recovery: RULES } = POLICY.defaults;

export function checkRecoveryEnds(evidence: Evidence, stories: readonly RecoveryStory[]): Violation[] {
  return [
    ...stories.flatMap((story) => [
      ...checkRest(story),
      ...checkBlocks(story, evidence),
      ...checkWithdrawn(story),
      ...checkPoints(story, evidence),
    ]),
    ...checkAlerts(evidence, stories),
    ...checkKinds(evidence, stories),
  ];
}

function checkRest(story: RecoveryStory): Violation[] {
  const { state, truth, moves } = story;
  const isOpen = state === "waiting" || state === "attempted";
  if (!isOpen && (truth.head.recovery?.state ?? "idle") === state) return [];
  const found: Violation[] = [];
  const details = { state, stored: truth.head.recovery?.state ?? null, seq: moves.at(-1)?.entry.seq };
  sayingOf(found, story)(
    "recovery_unfinished",
    "a recovery is not where its entries lead, or still going on, with every fault undone",
    details,
  );
  return found;
}

export const blockOf = ({ moves }: RecoveryStory): Entry | undefined =>
  moves.findLast(({ to }) => to === "blocked")?.entry;

function checkBlocks(story: RecoveryStory, evidence: Evidence): Violation[] {
  const found: Violation[] = [];
  for (const [i, { entry, failure }] of story.moves.entries()) {
    // What a handoff came to is checked with it.
    if (entry.op !== "block" || entry.handoff_id !== undefined) continue;
    if (isLeftAgain(story, entry)) continue;
    const problem = REASONS[entry.reason ?? ""]?.({
      story,
      entry,
      failure,
      before: story.moves.slice(0, i),
      evidence,
    });
    if (problem === null) continue;
    const { seq, reason } = entry;
    const details = { seq, reason, problem: problem ?? "no such reason" };
    sayingOf(found, story)("recovery_unjustified", "a task was blocked for a reason that is none", details);
  }
  return found;
}

/** Who took the blocked task failed, or let it go, before anything was written: it waits for what it waited for. */
function isLeftAgain({ truth }: RecoveryStory, { seq, reason, alerted_seq: alerted }: Entry): boolean {
  const cause = truth.entries[seq - 2];
  const isLeft = (cause?.op === "fail" || cause?.op === "release") && cause.state_from === "blocked";
  const first = truth.entries[(alerted ?? 0) - 1];
  return isLeft && first !== undefined && (first.op !== "block" || first.reason === reason);
}

interface Blocked {
  readonly story: RecoveryStory;
  readonly entry: Entry;
  readonly failure: Entry | null;
  readonly before: readonly RecoveryMove[];
  readonly evidence: Evidence;
}

const sinceProgress = (moves: readonly RecoveryMove[]): readonly RecoveryMove[] =>
  moves.slice(1 + moves.findLastIndex(({ entry }) => isProgress(entry)));

/** What is wrong with a reason; null: nothing. */
const REASONS: Readonly<Record<string, (blocked: Blocked) => string | null>> = {
  unrecoverable: ({ failure }) => (failure?.class === "unrecoverable" ? null : "the failure was another"),
  attempts_spent: ({ before }) => {
    const made = sinceProgress(before).filter(({ entry }) => isAttempt(entry));
    const on = (name: string) => made.filter(({ entry }) => entry.rung === name).length;
    return on("previous") >= RULES.previous_attempts ? null : "attempts are left";
  },
  too_many_attempts: ({ before, entry }) => {
    const lately = before.filter(
      (move) => isAttempt(move.entry) && timeOf(move.entry) > timeOf(entry) - RULES.window_ms,
    );
    return lately.length >= RULES.window_attempts ? null : "there were not so many";
  },
  chain_broken: ({ story, entry, evidence }) => {
    const damaged = damagedIn(story.truth, evidence, timeOf(entry));
    if (damaged.size === 0) return "nobody damaged anything";
    const before = lineagesOf(story.truth, evidence.sent).filter(({ seq }) => seq < entry.seq);
    const newest = before.findLast(({ id }) => !damaged.has(id));
    const isBroken = newest === undefined || [...newest.ancestors].some((id) => damaged.has(id));
    return isBroken ? null : "the newest sound one goes back to nothing that was damaged";
  },
  no_checkpoint: ({ story, entry }) => {
    const hasAny = story.truth.entries.some(({ op, seq }) => op === "create" && seq < entry.seq);
    return hasAny ? "there are checkpoints" : null;
  },
  withdrawn: ({ story, entry }) => {
    const cause = story.truth.entries[entry.seq - 2];
    const isOwn = cause?.op === "cancel_handoff" && cause.command_id === entry.command_id;
    return isOwn && cause.reason === "withdrawn" ? null : "nobody took a handoff back";
  },
};

/** Whoever takes back what brings a task on leaves it to a person, in the same transaction. */
function checkWithdrawn({ task, truth, withdrawn }: RecoveryStory): Violation[] {
  const found: Violation[] = [];
  for (const { seq, command_id, handoff_id } of withdrawn) {
    const next = truth.entries[seq];
    if (next?.op === "block" && next.reason === "withdrawn" && next.command_id === command_id) continue;
    const details = { seq, handoff_id, next: next?.op ?? null };
    sayingOf(found, { task })("recovery_unfinished", "a task was left to nobody after a failure", details);
  }
  return found;
}

/** How long after it was damaged a checkpoint may still be one that was looked at before. */
const LOOKED_AT_MS = 2_000;

/** Nothing goes on from what was damaged, or goes back to it. */
function checkPoints(story: RecoveryStory, evidence: Evidence): Violation[] {
  const found: Violation[] = [];
  const lineages = new Map(lineagesOf(story.truth, evidence.sent).map((one) => [one.id, one]));
  for (const { entry } of story.moves.filter((move) => move.entry.op === "recover")) {
    const damaged = damagedIn(story.truth, evidence, timeOf(entry) - LOOKED_AT_MS);
    const point = lineages.get(entry.from_checkpoint ?? "");
    const used = point && [point.id, ...point.ancestors].filter((id) => damaged.has(id));
    if (used?.length === 0) continue;
    const details = { seq: entry.seq, from: entry.from_checkpoint, damaged: used ?? null };
    sayingOf(found, story)(
      "corrupt_served",
      "an attempt goes on from what was damaged or is not there",
      details,
    );
  }
  return found;
}

function damagedIn({ task }: TaskTruth, { damages }: Evidence, untilMs: number): Set<string> {
  const own = damages.filter((one) => one.task === task && one.wall <= untilMs);
  return new Set(own.map(({ checkpoint_id }) => checkpoint_id));
}

/** Blocked again for the same, with nothing new done and nobody who asked for it in between, it is the same block. */
function isSame(story: RecoveryStory, entry: Entry): boolean {
  const { seq, reason, alerted_seq: alerted } = entry;
  if (alerted === undefined) return false;
  if (isLeftAgain(story, entry)) return true;
  const [first, ...between] = story.truth.entries.slice(alerted - 1, seq - 1);
  const isTold = first?.op === "block" ? first.reason === reason : first?.handoff_id !== undefined;
  const isOther = (one: Entry): boolean => isProgress(one) || (one.op === "retry" && one.command_id !== null);
  return isTold && !between.some(isOther);
}

/** Of each block people were told once, and of nothing else. */
function checkAlerts({ truth }: Evidence, stories: readonly RecoveryStory[]): Violation[] {
  const found: Violation[] = [];
  const told = new Map(
    truth.alerts.flatMap((alert: Alert) => (alert.type === "RECOVERY_BLOCKED" ? [[alert.id, alert]] : [])),
  );
  const byTask = Map.groupBy(told.values(), ({ subject }) => subject);
  const isTold = (story: RecoveryStory, entry: Entry): boolean =>
    entry.op === "block" && entry.handoff_id === undefined && !isSame(story, entry);
  const blocksOf = (story: RecoveryStory): number =>
    story.moves.filter(({ entry }) => isTold(story, entry)).length;
  const expected = new Map(stories.map((story) => [story.task, blocksOf(story)]));
  for (const task of new Set([...expected.keys(), ...byTask.keys()])) {
    const [blocks, alerts] = [expected.get(task) ?? 0, byTask.get(task)?.length ?? 0];
    const say = sayingOf(found, { task });
    if (alerts < blocks)
      say("alert_missing", "a task was blocked and nobody was told so", { blocks, alerts });
    if (alerts > blocks)
      say("alert_unfounded", "an alert tells of a block that was none", { blocks, alerts });
  }
  return found;
}

/** What becomes of a task of a kind; null: it is done. Of any, the agents may have failed too often, which is checked with the block. */
const EXPECTED: Readonly<Record<Exclude<Kind, "healthy">, readonly (string | null)[]>> = {
  sound: [null],
  corrupt: [null, "chain_broken"],
  loop: [],
  junk: [],
  inventive: [],
  fatal: ["unrecoverable"],
  broken: ["chain_broken", null],
};
const SPENT: ReadonlySet<string> = new Set(["attempts_spent", "too_many_attempts", "no_checkpoint"]);

function checkKinds({ truth, damages }: Evidence, stories: readonly RecoveryStory[]): Violation[] {
  const found: Violation[] = [];
  const byTask = new Map(stories.map((story) => [story.task, story]));
  const damaged = new Set(damages.map(({ task }) => task));
  for (const { task, head } of truth.tasks.values()) {
    const kind = kindOf(task);
    if (kind === null || kind === "healthy") continue;
    const story = byTask.get(task);
    const reason = head.state === "completed" ? null : ((story && blockOf(story)?.reason) ?? head.state);
    // Nobody could damage it in time: it went on as any other.
    const isSpared = kind !== "broken" || reason !== null || !damaged.has(task);
    if (SPENT.has(reason ?? "") || (EXPECTED[kind].includes(reason) && isSpared)) continue;
    const say = sayingOf(found, { task });
    say("recovery_unfinished", "a task did not come to the end that its kind comes to", {
      ...{ kind, reason, state: head.state, owner: head.owner, fence: head.fence },
      recovery: head.recovery?.state ?? null,
    });
  }
  return found;
}
