// The parts of a recovery as short texts, for tables, pages and single lines.

import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import type { RecoveryState } from "../../../../shared/protocol/recovery-states.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import { counted, plain, principalText } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const COLOR = {
  idle: "dim",
  waiting: "yellow",
  attempted: "yellow",
  resumed: "cyan",
  blocked: "red",
} as const satisfies Record<RecoveryState, string>;

export const recoveryStateText = (state: RecoveryState, { colors }: View): string =>
  colors[COLOR[state]](state);

/** A name of the protocol in words: "attempts spent". */
export const inWords = (name: string): string => name.replaceAll("_", " ");

/** As in "2 of 5". Requested attempts count too, and may exceed the budget of the policy. */
export function attemptsText({ attempts, attempts_max: max }: Recovery): string {
  if (max === null) return String(attempts);
  return attempts > max ? `${attempts} (budget: ${max})` : `${attempts} of ${max}`;
}

export function recoveryFailureText({
  class: failureClass,
  signal,
  agent_id: agent,
}: NonNullable<Recovery["failure"]>): string {
  if (signal === "request") return agent === null ? "request" : `request (taken from ${plain(agent)})`;
  return `${inWords(failureClass)}${agent === null ? "" : ` of ${plain(agent)}`}`;
}

/** The type of an agent, behind its name. */
export const typeSuffix = (type: string | null | undefined): string =>
  type == null ? "" : ` (${plain(type)})`;

/** The next step of a recovery, in a few words. `type`: the agent type of the open offer; null: unknown. */
export function nextStepText(
  { owner, blocked }: Task,
  { state, due_at }: Recovery,
  type: string | null,
  { now }: View,
): string {
  switch (state) {
    case "waiting":
      return due_at === null ? "-" : `attempt ${Date.parse(due_at) <= now ? "now" : ago(due_at, now)}`;
    case "attempted":
      return `waits for ${owner === null ? `an agent${typeSuffix(type)}` : principalText(owner)}`;
    case "resumed":
      return "waits for progress";
    case "blocked":
      return `waits for an operator: ${inWords(blocked?.reason ?? "blocked")}`;
    case "idle":
      return "-";
  }
}

/** The recovery of a task in one line. `type`: the agent type of the open offer; null: unknown. */
export function recoveryLine(task: Task, recovery: Recovery, view: View, type: string | null = null): string {
  const { state, failure, attempts, attempts_max: max } = recovery;
  if (state === "idle" && recovery.attempts === 0) return recoveryStateText(state, view);
  const after = failure === null ? "" : ` after ${recoveryFailureText(failure)}`;
  const next = state === "idle" ? "" : `; ${nextStepText(task, recovery, type, view)}`;
  const made = max === null ? counted(attempts, "attempt") : `${attemptsText(recovery)} attempts`;
  return `${recoveryStateText(state, view)}, ${made}${after}${next}`;
}

/** The block that waits for an operator. null: the task is not blocked, or an agent has taken it since. */
export function waitingBlock({ blocked }: Pick<Task, "blocked">): Task["blocked"] {
  return blocked?.taken_by == null ? blocked : null;
}
