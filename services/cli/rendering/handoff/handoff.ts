// Handoffs for operators: the list, and one handoff with all its fields.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../../../shared/protocol/handoff-states.ts";
import { signedFields } from "../esign/signatures.ts";
import { briefIds } from "../terminal/elision.ts";
import { field, optionalField } from "../terminal/fields.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain, principalText, shownId } from "../terminal/text.ts";
import { ago, brieflyAgo, exactly, span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

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

export interface HandoffTable {
  readonly handoffs: readonly Handoff[];
  /** The command for the next page; undefined if this is the last one. */
  readonly next: string | undefined;
}

/** In the order of the heads below. The previous owner and the task distinguish the rows. */
const FIT = [
  { id: briefIds },
  { brief: brieflyAgo },
  undefined,
  { least: 12, names: true },
  { leaves: 2 },
  { least: 12, names: true, leaves: 1 },
  { least: 12, names: true },
] as const;

export function renderHandoffs({ handoffs, next }: HandoffTable, view: View): string {
  if (handoffs.length === 0 && next === undefined) return "No handoffs.";
  const heads = ["ID", "WHEN", "STATE", "FROM", "TO", "ACCEPTED BY", "TASK"];
  const rows = handoffs.map((handoff) => [
    handoff.handoff_id,
    ago(handoff.requested_at, view.now),
    stateText(handoff.state, view),
    principalText(handoff.from_agent),
    plain(handoff.to_agent_type ?? "-"),
    handoff.accepted_by === null ? "-" : principalText(handoff.accepted_by),
    plain(handoff.task_id),
  ]);
  return [
    ...tableLines(rows, { heads, view, fit: FIT }),
    "",
    ...pageEnd(counted(handoffs.length, "handoff"), next, view),
  ].join("\n");
}

/** `signatures`: of the checkpoints that it names. */
export function renderHandoff(handoff: Handoff, view: View, signatures: readonly EsignBlock[] = []): string {
  const { now } = view;
  const { failure, trigger } = handoff;
  const fact = (name: string, value: string | null): string[] => optionalField(name, value, view);
  const at = (time: string | null): string | null => (time === null ? null : exactly(time, now));
  return [
    field("Handoff", view.colors.bold(handoff.handoff_id), view),
    field("Task", plain(handoff.task_id), view),
    field("State", stateText(handoff.state, view), view),
    ...fact(
      handoff.state === "cancelled" ? "Why it ended" : "Why it failed",
      failure && failureText(failure),
    ),
    field("From", `${principalText(handoff.from_agent)} (${plain(handoff.from_agent_type)})`, view),
    field(
      "To",
      handoff.to_agent_type === null ? "not yet chosen" : `agents of type ${plain(handoff.to_agent_type)}`,
      view,
    ),
    field("Checkpoint", shownId(handoff.checkpoint_id), view),
    ...signedFields(handoff.checkpoint_id, signatures, view),
    ...fact("Next phase", handoff.next_phase),
    ...fact("Recovery", handoff.recovery && recoveryText(handoff.recovery)),
    ...fact("Reason", handoff.reason === null ? null : plain(handoff.reason)),
    ...fact("Trigger", trigger && triggerText(trigger)),
    ...fact("Offers", handoff.max_attempts === null ? null : `${handoff.attempt} of ${handoff.max_attempts}`),
    ...fact("Deadline", at(handoff.deadline)),
    ...fact(
      "Accepted by",
      handoff.accepted_by && `${principalText(handoff.accepted_by)}, fence ${handoff.fence}`,
    ),
    ...fact("First checkpoint", handoff.first_checkpoint_id && shownId(handoff.first_checkpoint_id)),
    ...signedFields(handoff.first_checkpoint_id, signatures, view),
    "",
    ...timeline(handoff, view),
  ].join("\n");
}

function recoveryText({ attempt, class: failed }: NonNullable<Handoff["recovery"]>): string {
  return `attempt ${attempt}, ${failed === null ? "requested" : `after an agent failed (${plain(failed)})`}`;
}

function failureText({ reason, details }: NonNullable<Handoff["failure"]>): string {
  return details === null ? reason : `${reason}: ${plain(details)}`;
}

function triggerText({ reason, value, threshold }: NonNullable<Handoff["trigger"]>): string {
  return `${plain(reason)}${value === undefined ? "" : `, ${value}`}${threshold === undefined ? "" : ` over ${threshold}`}`;
}

/** The time at which it reached each state, and the time since the request. */
function timeline(handoff: Handoff, view: View): string[] {
  const begin = Date.parse(handoff.requested_at);
  const times: [state: string, time: string | null][] = [
    ["requested", handoff.requested_at],
    ["validated", handoff.validated_at],
    ["offered", handoff.offered_at],
    ["accepted", handoff.accepted_at],
    [handoff.state, handoff.ended_at],
  ];
  const rows = times.flatMap(([state, time]) =>
    time === null ? [] : [[state, time, state === "requested" ? "" : `+${span(Date.parse(time) - begin)}`]],
  );
  return tableLines(rows, { view });
}
