/**
 * Handoffs: none is lost, every one has come to an end that its history justifies, and none was taken by two. It is checked on their
 * entries in the trails, their records, the alerts, and what the agents asked and were told. That the entries are a way through the
 * table of handoffs, and have an event each, is checked with the other entries.
 */

import type { Handoff } from "../../../../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../../../../shared/protocol/handoff-states.ts";
import type { Attempt } from "../../agents/history.ts";
import type { Command, Evidence, Truth, Violation } from "../evidence.ts";
import { checkEnd } from "./handoff-ends.ts";
import { type HandoffStory, sayingOf, stateOf, storiesOf } from "./handoff-history.ts";
import { checkOffers, checkTaking } from "./handoff-offers.ts";

export function checkHandoffs(evidence: Evidence, commands: ReadonlyMap<string, Command>): Violation[] {
  const { truth, attempts, damages } = evidence;
  const stories = storiesOf(truth);
  return [
    ...checkOpened(stories, commands),
    ...checkRecords(truth, stories),
    ...[...stories.values()].flatMap((story) => [
      ...checkOffers(story),
      ...checkTaking(story, commands),
      ...checkEnd(story, commands, damages),
    ]),
    ...checkAnswers(attempts, stories, commands),
    ...checkAlerts(truth, stories),
    ...checkTasks(truth),
  ];
}

/** What was answered as begun has begun. */
function checkOpened(
  stories: ReadonlyMap<string, HandoffStory>,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const found: Violation[] = [];
  for (const { id, task, attempts, committed } of commands.values()) {
    const { op, handoff } = attempts[0]!;
    const opens = op === "handoff" || op === "create";
    if (committed === undefined || handoff !== id || !opens) continue;
    const story = stories.get(id);
    if (committed.handoff === id && story?.task === task && story.moves[0]?.command_id === id) continue;
    sayingOf(found, { id, task })(
      "handoff_lost",
      "a handoff that was answered committed is not in the trail",
      {
        op,
        answered: committed.handoff,
      },
    );
  }
  return found;
}

/** Each record is what its entries come to, and there is no other. */
function checkRecords({ handoffs }: Truth, stories: ReadonlyMap<string, HandoffStory>): Violation[] {
  const found: Violation[] = [];
  for (const { handoff_id: id, task_id: task, state } of handoffs.values()) {
    if (stories.has(id)) continue;
    sayingOf(found, { id, task })("handoff_lost", "a handoff has a record and no entry", { state });
  }
  for (const story of stories.values()) {
    const { record, moves } = story;
    const say = sayingOf(found, story);
    if (record === undefined) {
      say("handoff_lost", "a handoff has entries and no record");
      continue;
    }
    const taken = moves.findLast(({ op }) => op === "acknowledge");
    const stored = summary(record);
    const told = {
      state: stateOf(story),
      attempt: moves.filter(({ op }) => op === "offer").length,
      accepted_by: taken?.owner_to ?? null,
      fence: taken?.fence ?? null,
      first_checkpoint_id: moves.find(({ op }) => op === "confirm")?.first_checkpoint ?? null,
    };
    if (JSON.stringify(stored) !== JSON.stringify(told)) {
      say("handoff_lost", "a handoff's record is not what its entries come to", { stored, told });
    }
  }
  return found;
}

const summary = ({ state, attempt, accepted_by, fence, first_checkpoint_id }: Handoff) => ({
  state,
  attempt,
  accepted_by,
  fence,
  first_checkpoint_id,
});

/** Of all who asked for an offered task, one was told that it has it; and what they had in hand had been offered. */
function checkAnswers(
  attempts: readonly Attempt[],
  stories: ReadonlyMap<string, HandoffStory>,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const found: Violation[] = [];
  const granted = [...commands.values()].filter(
    ({ attempts: [first], committed }) => first?.op === "acknowledge" && committed !== undefined,
  );
  for (const [id, both] of Map.groupBy(granted, ({ committed }) => committed!.handoff!)) {
    if (both.length < 2) continue;
    const agents = both.map((one) => one.attempts[0]!.agent);
    const say = sayingOf(found, { id, task: both[0]!.task });
    say("handoff_taken_twice", "two agents were told that they have what one was to have", { agents });
  }
  for (const { op, task, handoff, attempt } of attempts) {
    if (op !== "acknowledge" || handoff === undefined || attempt === undefined) continue;
    const offers = stories.get(handoff)?.moves.filter((move) => move.op === "offer") ?? [];
    if (offers.some((offer) => offer.attempt === attempt)) continue;
    const say = sayingOf(found, { id: handoff, task });
    say("event_unfounded", "an agent was offered what no audit entry offers", { attempt });
  }
  return found;
}

const SEVERITY: Readonly<Partial<Record<HandoffState, string>>> = {
  rejected: "critical",
  escalated: "critical",
  lapsed: "warning",
};

/** Of each failure people were told, and of nothing else. */
function checkAlerts({ alerts }: Truth, stories: ReadonlyMap<string, HandoffStory>): Violation[] {
  const found: Violation[] = [];
  const told = new Map(
    alerts.flatMap((alert) => {
      if (alert.type !== "HANDOFF_FAILED") return [];
      const { handoffId, state } = alert.data as { handoffId: string; state: string };
      return [[handoffId, { state, severity: alert.severity, task: alert.subject }]];
    }),
  );
  for (const story of stories.values()) {
    const state = stateOf(story);
    const severity = SEVERITY[state];
    const alert = told.get(story.id);
    if (severity === undefined) continue;
    if (alert?.state === state && alert.severity === severity && alert.task === story.task) continue;
    sayingOf(found, story)("alert_missing", "a handoff failed and nobody was told so", { state, alert });
  }
  for (const [id, { task, state }] of told) {
    const story = stories.get(id);
    if (story !== undefined && SEVERITY[stateOf(story)] !== undefined) continue;
    sayingOf(found, { id, task })("alert_unfounded", "an alert tells of a failure that was none", { state });
  }
  return found;
}

/** No task is left on its way from one agent to the next. */
function checkTasks({ tasks }: Truth): Violation[] {
  return [...tasks.values()]
    .filter(({ head }) => head.state === "handing_off")
    .map(({ task, head }) => ({
      kind: "handoff_unfinished",
      task,
      text: "a task is still being handed off, with every fault undone",
      details: { handoff_id: head.handoff_id, owner: head.owner, fence: head.fence },
    }));
}
