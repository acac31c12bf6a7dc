/**
 * The checks of the handoffs: no handoff is lost, the history of every handoff has a cause for its end, and none was accepted twice. The
 * checks use the audit entries, the records, the alerts, and the commands and answers of the agents. The checks of the audit trail and of the
 * events cover the transitions and their events.
 */

import type { Handoff } from "../../../../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../../../../shared/protocol/handoff-states.ts";
import type { CallAttempt } from "../../agents/history.ts";
import type { Command, Evidence, FinalState, Violation } from "../evidence.ts";
import { checkEnd } from "./handoff-ends.ts";
import { type HandoffHistory, handoffHistories, handoffReporter, stateOf } from "./handoff-history.ts";
import { checkAcceptance, checkOffers } from "./handoff-offers.ts";

export function checkHandoffs(evidence: Evidence, commands: ReadonlyMap<string, Command>): Violation[] {
  const { finalState, attempts, damages } = evidence;
  const histories = handoffHistories(finalState);
  return [
    ...checkOpened(histories, commands),
    ...checkRecords(finalState, histories),
    ...[...histories.values()].flatMap((history) => [
      ...checkOffers(history),
      ...checkAcceptance(history, commands),
      ...checkEnd(history, commands, damages),
    ]),
    ...checkAnswers(attempts, histories, commands),
    ...checkAlerts(finalState, histories),
    ...checkTasks(finalState),
  ];
}

/** Checks that every handoff that was answered committed is in the audit trail. */
function checkOpened(
  histories: ReadonlyMap<string, HandoffHistory>,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const found: Violation[] = [];
  for (const { id, task, attempts, committed } of commands.values()) {
    const { op, handoff } = attempts[0]!;
    const opens = op === "handoff" || op === "create";
    if (committed === undefined || handoff !== id || !opens) continue;
    const history = histories.get(id);
    if (committed.handoff === id && history?.task === task && history.moves[0]?.command_id === id) continue;
    handoffReporter(found, { id, task })(
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

/** Checks that each record equals the fold of its entries, and that there are no other records. */
function checkRecords({ handoffs }: FinalState, histories: ReadonlyMap<string, HandoffHistory>): Violation[] {
  const found: Violation[] = [];
  for (const { handoff_id: id, task_id: task, state } of handoffs.values()) {
    if (histories.has(id)) continue;
    handoffReporter(found, { id, task })("handoff_lost", "a handoff has a record and no entry", { state });
  }
  for (const history of histories.values()) {
    const { record, moves } = history;
    const report = handoffReporter(found, history);
    if (record === undefined) {
      report("handoff_lost", "a handoff has entries and no record");
      continue;
    }
    const acceptance = moves.findLast(({ op }) => op === "acknowledge");
    const stored = summary(record);
    const folded = {
      state: stateOf(history),
      attempt: moves.filter(({ op }) => op === "offer").length,
      accepted_by: acceptance?.owner_to ?? null,
      fence: acceptance?.fence ?? null,
      first_checkpoint_id: moves.find(({ op }) => op === "confirm")?.first_checkpoint ?? null,
    };
    if (JSON.stringify(stored) !== JSON.stringify(folded)) {
      report("handoff_lost", "a handoff's record differs from the fold of its entries", { stored, folded });
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

/** Checks that at most one accepting agent was answered committed, and that the accepted offers were made. */
function checkAnswers(
  attempts: readonly CallAttempt[],
  histories: ReadonlyMap<string, HandoffHistory>,
  commands: ReadonlyMap<string, Command>,
): Violation[] {
  const found: Violation[] = [];
  const granted = [...commands.values()].filter(
    ({ attempts: [first], committed }) => first?.op === "acknowledge" && committed !== undefined,
  );
  for (const [id, both] of Map.groupBy(granted, ({ committed }) => committed!.handoff!)) {
    if (both.length < 2) continue;
    const agents = both.map((one) => one.attempts[0]!.agent);
    const report = handoffReporter(found, { id, task: both[0]!.task });
    report("handoff_taken_twice", "two acceptances of one handoff were answered committed", { agents });
  }
  for (const { op, task, handoff, attempt } of attempts) {
    if (op !== "acknowledge" || handoff === undefined || attempt === undefined) continue;
    const offers = histories.get(handoff)?.moves.filter((move) => move.op === "offer") ?? [];
    if (offers.some((offer) => offer.attempt === attempt)) continue;
    const report = handoffReporter(found, { id: handoff, task });
    report("event_unfounded", "an agent received an offer without an audit entry", { attempt });
  }
  return found;
}

const SEVERITY: Readonly<Partial<Record<HandoffState, string>>> = {
  rejected: "critical",
  escalated: "critical",
  lapsed: "warning",
};

/** Checks that every failure has its alert, and that there are no other alerts. */
function checkAlerts({ alerts }: FinalState, histories: ReadonlyMap<string, HandoffHistory>): Violation[] {
  const found: Violation[] = [];
  const alerted = new Map(
    alerts.flatMap((alert) => {
      if (alert.type !== "HANDOFF_FAILED") return [];
      const { handoffId, state } = alert.data as { handoffId: string; state: string };
      return [[handoffId, { state, severity: alert.severity, task: alert.subject }]];
    }),
  );
  for (const history of histories.values()) {
    const state = stateOf(history);
    const severity = SEVERITY[state];
    const alert = alerted.get(history.id);
    if (severity === undefined) continue;
    if (alert?.state === state && alert.severity === severity && alert.task === history.task) continue;
    handoffReporter(found, history)("alert_missing", "a handoff failed without an alert", { state, alert });
  }
  for (const [id, { task, state }] of alerted) {
    const history = histories.get(id);
    if (history !== undefined && SEVERITY[stateOf(history)] !== undefined) continue;
    handoffReporter(found, { id, task })("alert_unfounded", "an alert reports a handoff that did not fail", {
      state,
    });
  }
  return found;
}

/** Checks that no task is in state `handing_off` at the end. */
function checkTasks({ tasks }: FinalState): Violation[] {
  return [...tasks.values()]
    .filter(({ head }) => head.state === "handing_off")
    .map(({ task, head }) => ({
      kind: "handoff_unfinished",
      task,
      text: "a task is still being handed off after all faults are undone",
      details: { handoff_id: head.handoff_id, owner: head.owner, fence: head.fence },
    }));
}
