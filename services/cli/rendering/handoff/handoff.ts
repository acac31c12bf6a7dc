// Handoffs for people.

import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../../../shared/protocol/handoff-states.ts";
import type { HandoffOutcome } from "../../../../shared/sdk/client/outcome.ts";
import type { FleetClient, Task } from "../../../../shared/sdk/sdk.ts";
import { field } from "../terminal/fields.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain, shownId } from "../terminal/text.ts";
import { ago, brieflyAgo, exactly, span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export function renderHandedOff(
  { outcome, fleet }: { readonly outcome: HandoffOutcome; readonly fleet: string },
  { colors }: View,
): string {
  const id = colors.bold(outcome.handoffId);
  const follow = `Follow it: ${fleet} handoffs show ${outcome.handoffId}`;
  if (outcome.outcome === "committed") {
    return [
      `${colors.green("Handoff requested:")} ${id}`,
      `Task: ${plain(outcome.taskId)}`,
      `Checkpoint: ${shownId(outcome.checkpointId)}`,
      follow,
    ].join("\n");
  }
  const where = outcome.outcome === "queued" ? "in the queue" : "on this machine's disk";
  return [
    `${colors.yellow("Handoff not yet requested:")} ${id}`,
    `Task: ${plain(outcome.taskId)}`,
    `Store, writer or bus is away; the command is kept ${where} and will be carried out once, in order.`,
    follow,
  ].join("\n");
}

export type Cancelled = Awaited<ReturnType<FleetClient["cancelHandoff"]>>;

/** `head`: of its task, afterwards; null: not known. */
export function cancelledData({ taskId, handoffId, state }: Cancelled, head: Task | null): object {
  const after = head && { state: head.state, owner: head.owner, fence: head.fence };
  return { task_id: taskId, handoff_id: handoffId, state, task: after };
}

export function renderCancelled(
  { taskId, handoffId }: Cancelled,
  head: Task | null,
  fleet: string,
  { colors }: View,
): string {
  const task = plain(taskId);
  const isBlocked = head?.state === "blocked";
  return [
    `${colors.green("Taken back:")} handoff ${handoffId}`,
    `Task: ${task}${head === null ? "" : `, ${isBlocked ? colors.red("blocked: ") : ""}${leftText(head)}`}`,
    `${isBlocked ? "Have it go on" : "Look"}: ${fleet} ${isBlocked ? "recovery run" : "task show"} ${task}`,
  ].join("\n");
}

function leftText({ state, owner, fence, recovery }: Task): string {
  if (state === "blocked" && recovery?.blocked?.reason === "withdrawn")
    return "its agent had failed and nobody has it; people are alerted";
  return owner === null ? "with nobody, as before" : `with ${plain(owner)} as before, under fence ${fence}`;
}

const COLOR = {
  requested: "yellow",
  validated: "yellow",
  offered: "yellow",
  accepted: "cyan",
  confirmed: "green",
  rejected: "red",
  escalated: "red",
  cancelled: "dim",
  lapsed: "red",
} as const satisfies Record<HandoffState, string>;

const stateText = (state: HandoffState, { colors }: View): string => colors[COLOR[state]](state);

export interface HandoffsText {
  readonly handoffs: readonly Handoff[];
  /** The command for the next page, when there is one. */
  readonly next: string | undefined;
}

/** As in the heads below. The id is what people copy, and the task what tells rows apart. */
const FIT = [
  undefined,
  { brief: brieflyAgo },
  undefined,
  { leaves: 2 },
  { leaves: 3 },
  { leaves: 1 },
  { least: 8 },
] as const;

export function renderHandoffs({ handoffs, next }: HandoffsText, view: View): string {
  if (handoffs.length === 0 && next === undefined) return "No handoffs.";
  const heads = ["ID", "WHEN", "STATE", "FROM", "TO", "TAKEN BY", "TASK"];
  const rows = handoffs.map((handoff) => [
    handoff.handoff_id,
    ago(handoff.requested_at, view.now),
    stateText(handoff.state, view),
    plain(handoff.from_agent),
    plain(handoff.to_agent_type ?? "-"),
    plain(handoff.accepted_by ?? "-"),
    plain(handoff.task_id),
  ]);
  return [
    ...tableLines(rows, { heads, view, fit: FIT }),
    "",
    ...(next === undefined
      ? [`Total: ${counted(handoffs.length, "handoff")}`]
      : [`${counted(handoffs.length, "handoff")}; more with:`, `  ${view.colors.cyan(next)}`]),
  ].join("\n");
}

export function renderHandoff(handoff: Handoff, view: View): string {
  const { now } = view;
  const { failure, trigger } = handoff;
  const fact = (name: string, value: string | null): string[] =>
    value === null ? [] : [field(name, value, view)];
  const at = (time: string | null): string | null => (time === null ? null : exactly(time, now));
  return [
    field("Handoff", view.colors.bold(handoff.handoff_id), view),
    field("Task", plain(handoff.task_id), view),
    field("State", stateText(handoff.state, view), view),
    ...fact(
      handoff.state === "cancelled" ? "Why it ended" : "Why it failed",
      failure && failureText(failure),
    ),
    field("From", `${plain(handoff.from_agent)} (${plain(handoff.from_agent_type)})`, view),
    field(
      "To",
      handoff.to_agent_type === null ? "not chosen yet" : `agents of type ${plain(handoff.to_agent_type)}`,
      view,
    ),
    field("Checkpoint", shownId(handoff.checkpoint_id), view),
    ...fact("Next phase", handoff.next_phase),
    ...fact("Recovery", handoff.recovery && recoveryText(handoff.recovery)),
    ...fact("Reason", handoff.reason === null ? null : plain(handoff.reason)),
    ...fact("Trigger", trigger && triggerText(trigger)),
    ...fact("Offers", handoff.max_attempts === null ? null : `${handoff.attempt} of ${handoff.max_attempts}`),
    ...fact("Deadline", at(handoff.deadline)),
    ...fact("Taken by", handoff.accepted_by && `${plain(handoff.accepted_by)}, fence ${handoff.fence}`),
    ...fact("First checkpoint", handoff.first_checkpoint_id && shownId(handoff.first_checkpoint_id)),
    "",
    ...course(handoff, view),
  ].join("\n");
}

function recoveryText({ attempt, class: failed }: NonNullable<Handoff["recovery"]>): string {
  return `attempt ${attempt}, ${failed === null ? "asked for" : `after an agent failed (${plain(failed)})`}`;
}

function failureText({ reason, details }: NonNullable<Handoff["failure"]>): string {
  return details === null ? reason : `${reason}: ${plain(details)}`;
}

function triggerText({ reason, value, threshold }: NonNullable<Handoff["trigger"]>): string {
  return `${plain(reason)}${value === undefined ? "" : `, ${value}`}${threshold === undefined ? "" : ` over ${threshold}`}`;
}

/** When it came into each state, and how long that took from the request on. */
function course(handoff: Handoff, view: View): string[] {
  const begin = Date.parse(handoff.requested_at);
  const times: [what: string, time: string | null][] = [
    ["requested", handoff.requested_at],
    ["validated", handoff.validated_at],
    ["offered", handoff.offered_at],
    ["accepted", handoff.accepted_at],
    [handoff.state, handoff.ended_at],
  ];
  const rows = times.flatMap(([what, time]) =>
    time === null ? [] : [[what, time, what === "requested" ? "" : `+${span(Date.parse(time) - begin)}`]],
  );
  return tableLines(rows, { view });
}
