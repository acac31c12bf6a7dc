// Recoveries for people: how they stand, and what to do about those that are blocked.

import { BLOCKED_WORDS } from "../../../../shared/protocol/alert-text.ts";
import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import type { BlockReason, RecoveryState } from "../../../../shared/protocol/recovery-states.ts";
import type { Handoff, RecoveryResult, Task } from "../../../../shared/sdk/sdk.ts";
import type { Presence } from "../../commands/recovery/agent-presence.ts";
import { field } from "../terminal/fields.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain, shownId } from "../terminal/text.ts";
import { ago, brieflyAgo, exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { presenceText } from "./presence.ts";

const COLOR = {
  idle: "dim",
  waiting: "yellow",
  attempted: "yellow",
  resumed: "cyan",
  blocked: "red",
} as const satisfies Record<RecoveryState, string>;

const stateText = (state: RecoveryState, { colors }: View): string => colors[COLOR[state]](state);

const words = (name: string): string => name.replaceAll("_", " ");

/** "2 of 5". What people ask for is counted, and may go beyond the policy. */
function attemptsText({ attempts, attempts_max: max }: Recovery): string {
  if (max === null) return String(attempts);
  return attempts > max ? `${attempts} (policy: ${max})` : `${attempts} of ${max}`;
}

export interface RecoveriesText {
  readonly tasks: readonly Task[];
  /** By task, the type of agent that its open attempt is offered to, where that is known. */
  readonly offeredTo: ReadonlyMap<string, string>;
  /** The command for the next page, when there is one. */
  readonly next: string | undefined;
  /** How the program is called here. */
  readonly fleet: string;
}

/** As in the heads below. The task is what people copy. */
const FIT = [
  { least: 12 },
  undefined,
  undefined,
  { leaves: 2 },
  { brief: brieflyAgo },
  { least: 12 },
] as const;

export function renderRecoveries({ tasks, offeredTo, next, fleet }: RecoveriesText, view: View): string {
  if (tasks.length === 0 && next === undefined)
    return "Nothing is recovered now, and nothing waits for a person.";
  const heads = ["TASK", "STATE", "ATTEMPTS", "LAST FAILURE", "WHEN", "NEXT"];
  const rows = tasks.flatMap((task) => {
    const { task_id, recovery } = task;
    return recovery === null
      ? []
      : [
          [
            plain(task_id),
            stateText(recovery.state, view),
            attemptsText(recovery),
            recovery.failure === null ? "-" : failureText(recovery.failure),
            recovery.failure === null ? "-" : ago(recovery.failure.noted_at, view.now),
            nextText(task, recovery, offeredTo.get(task_id) ?? expectedAgentType(task), view),
          ],
        ];
  });
  return [
    ...tableLines(rows, { heads, view, fit: FIT }),
    "",
    ...(next === undefined
      ? [`Total: ${counted(tasks.length, "task")}`]
      : [`${counted(tasks.length, "task")}; more with:`, `  ${view.colors.cyan(next)}`]),
    `In full: \`${fleet} recovery status <task>\`.`,
  ].join("\n");
}

export function failureText({
  class: failed,
  signal,
  agent_id: agent,
}: NonNullable<Recovery["failure"]>): string {
  if (signal === "request") return `request, taken from ${plain(agent ?? "nobody")}`;
  return `${words(failed)}${agent === null ? "" : ` of ${plain(agent)}`}`;
}

/** Of which type the agent should be that goes on, as far as that is known before it is offered. */
export function expectedAgentType({ recovery, agent_type }: Task): string | null {
  return recovery?.wish?.to_agent_type ?? agent_type;
}

/** What comes next, in a few words; `type`: of the agent that goes on. */
function nextText(
  { owner }: Task,
  { state, due_at, blocked }: Recovery,
  type: string | null,
  { now }: View,
): string {
  switch (state) {
    case "waiting":
      return due_at === null ? "-" : `attempt ${soon(due_at, now)}`;
    case "attempted":
      return `waits for ${owner === null ? `an agent${kindOf(type)}` : plain(owner)}`;
    case "resumed":
      return "waits for progress";
    case "blocked":
      return `waits for a person: ${words(blocked?.reason ?? "blocked")}`;
    case "idle":
      return "-";
  }
}

/** Of an agent, behind its name. */
const kindOf = (type: string | null | undefined): string => (type == null ? "" : ` (${plain(type)})`);

function soon(time: string, now: number): string {
  return Date.parse(time) <= now ? "now" : ago(time, now);
}

/** In a line, for the page of its task. */
export function recoveryLine(task: Task, recovery: Recovery, view: View): string {
  const { state, failure, attempts, attempts_max: max } = recovery;
  if (state === "idle" && recovery.attempts === 0) return stateText(state, view);
  const after = failure === null ? "" : ` after ${failureText(failure)}`;
  const next = state === "idle" ? "" : `; ${nextText(task, recovery, expectedAgentType(task), view)}`;
  const made = max === null ? counted(attempts, "attempt") : `${attemptsText(recovery)} attempts`;
  return `${stateText(state, view)}, ${made}${after}${next}`;
}

export interface RecoveryText {
  readonly task: Task;
  /** Of the newest attempt; null: there is none, or nobody can say. */
  readonly handoff: Handoff | null;
  /** Who of the type is there that it waits for; null: it waits for no agent. */
  readonly presence: Presence | null;
}

/** Whom it goes on with, or was offered to in vain; null: nobody goes on as it is. */
export function awaitedAgentType({ task, handoff }: Pick<RecoveryText, "task" | "handoff">): string | null {
  const { state, blocked } = task.recovery ?? { state: "idle", blocked: null };
  if (state === "waiting") return expectedAgentType(task);
  const wasOffered = state === "attempted" || blocked?.reason === "no_agent";
  return wasOffered ? (handoff?.to_agent_type ?? expectedAgentType(task)) : null;
}

export function renderRecovery({ task, handoff, presence }: RecoveryText, fleet: string, view: View): string {
  const { recovery } = task;
  if (recovery === null) return `No agent of task ${plain(task.task_id)} has failed.`;
  const { now, colors } = view;
  const fact = (name: string, value: string | null): string[] =>
    value === null ? [] : [field(name, value, view)];
  const at = (time: string | null): string | null => (time === null ? null : exactly(time, now));
  const { state, failure, blocked, wish } = recovery;
  const type = awaitedAgentType({ task, handoff });
  const from =
    recovery.rung === "latest"
      ? "the newest checkpoint"
      : "the checkpoint before the first that was tried, if there is one";
  const failed = recovery.failures === 0 ? "" : ` after ${counted(recovery.failures, "failure")}`;
  const waiting =
    state === "attempted" || state === "resumed" ? `, ${nextText(task, recovery, type, view)}` : "";
  return [
    field("Task", `${colors.bold(plain(task.task_id))}, ${task.state}`, view),
    field("Recovery", `${stateText(state, view)}${waiting}`, view),
    ...fact("Blocked", blocked && `${words(blocked.reason)}, ${exactly(blocked.at, now)}`),
    ...fact("Why", blocked?.details == null ? null : plain(blocked.details)),
    field("Attempts", `${attemptsText(recovery)}${failed}, from ${from}`, view),
    ...fact(state === "blocked" ? "Tried again" : "Next attempt", at(recovery.due_at)),
    ...(failure === null ? [] : failureLines(failure, view)),
    ...fact("  answered by", failure && recovery.action && words(recovery.action)),
    ...fact("Asked for", askedText(wish)),
    ...fact(
      blocked === null ? "Goes on with" : "Was offered to",
      task.owner !== null || type === null ? null : `agents of type ${plain(type)}`,
    ),
    ...fact("Seen of them", presence && presenceText(presence, task.task_id, now)),
    ...fact("Last attempt", at(recovery.attempted_at)),
    ...fact("From checkpoint", recovery.checkpoint_id && shownId(recovery.checkpoint_id)),
    ...fact("Handoff", recovery.handoff_id),
    ...fact("Resumed", at(recovery.resumed_at)),
    field("Owner", `${task.owner === null ? "nobody" : plain(task.owner)}, fence ${task.fence}`, view),
    ...adviceOn(task, recovery, fleet, view),
  ].join("\n");
}

/** By whom, and why. */
function askedText(wish: Recovery["wish"]): string | null {
  const said = [
    wish?.by == null ? null : `by ${plain(wish.by)}`,
    wish?.reason == null ? null : plain(wish.reason),
  ];
  const known = said.filter((part) => part !== null);
  return known.length === 0 ? null : known.join(": ");
}

function failureLines(failure: NonNullable<Recovery["failure"]>, view: View): string[] {
  const { agent_type: type, signal, details, last_sign_at: sign, resets_at: resets } = failure;
  const lines = [
    field(
      "Last failure",
      `${failureText(failure)}${kindOf(type)}, ${exactly(failure.noted_at, view.now)}`,
      view,
    ),
    field("  seen by", words(signal), view),
  ];
  if (details !== null) lines.push(field("  details", plain(details), view));
  if (sign !== null) lines.push(field("  last sign of life", exactly(sign, view.now), view));
  if (resets !== null) lines.push(field("  vendor serves again", exactly(plain(resets), view.now), view));
  return lines;
}

/** What somebody can do about it, with commands to be copied; nothing where it goes on by itself. */
function adviceOn(task: Task, { state, blocked, handoff_id }: Recovery, fleet: string, view: View): string[] {
  const { task_id: id, owner } = task;
  const said = (words: string, calls: readonly string[]): string[] => [
    "",
    plain(words),
    ...calls.map((call) => `  ${view.colors.cyan(plain(`${fleet} ${call}`))}`),
  ];
  if (blocked !== null) return said(BLOCKED_WORDS[blocked.reason], HELP[blocked.reason](id, task));
  if (state !== "attempted" || owner !== null) return [];
  return said("It is offered, and goes on when an agent takes it. Does one of its type run?", [
    "agents list",
    `handoffs show ${handoff_id ?? id}`,
  ]);
}

const again = (task: string): string[] => [
  `audit show ${task}`,
  `recover ${task} --dry-run`,
  `recovery reset ${task}`,
];

/** First what to look at, last what to do. */
const HELP: Readonly<Record<BlockReason, (task: string, head: Task) => string[]>> = {
  attempts_spent: again,
  too_many_attempts: again,
  unrecoverable: again,
  chain_broken: (task) => [
    `audit verify ${task}`,
    `checkpoints list --task ${task}`,
    `recover ${task} --dry-run --from <checkpoint>`,
  ],
  no_checkpoint: (task, { agent_type: type, recovery }) => [
    `audit show ${task}`,
    `checkpoint --task ${task} --type ${recovery?.failure?.agent_type ?? type ?? "<type>"} --phase planning --next "Begin"`,
    `recovery run ${task}`,
  ],
  no_agent: (task) => ["agents list", `handoffs show ${task}`, `recovery run ${task}`],
  withdrawn: (task) => [`handoffs show ${task}`, `recovery run ${task}`],
};

export function recoveringData({ taskId, recovery, checkpointId, fence, commandId }: RecoveryResult): object {
  return { task_id: taskId, recovery, checkpoint_id: checkpointId, fence, command_id: commandId };
}

/** `reset`: the budget is whole again, and so its ladder begins at the newest checkpoint. */
export function renderRecovering(
  result: RecoveryResult & { readonly reset: boolean; readonly replaced: Handoff | null },
  fleet: string,
  { colors }: View,
): string {
  const { checkpointId, fence, reset, replaced } = result;
  const newest = "the newest checkpoint that verifies";
  const chosen = reset ? newest : `${newest}, or the one before if that was tried in vain`;
  const task = plain(result.taskId);
  return [
    `${colors.green("Recovery asked for:")} task ${colors.bold(task)}`,
    `From: ${checkpointId === null ? chosen : shownId(checkpointId)}`,
    `Fence: ${fence}; whoever had the task can no longer write to it`,
    ...(replaced === null ? [] : [`Comes to nothing: ${replacedText(replaced, reset)}`]),
    `Follow it: ${fleet} recovery status ${task}`,
  ].join("\n");
}

function replacedText({ handoff_id: id, recovery }: Handoff, reset: boolean): string {
  if (recovery === null) return `handoff ${id}, which was open`;
  return `handoff ${id}, which was attempt ${recovery.attempt}${reset ? "" : "; it counts as one"}`;
}
