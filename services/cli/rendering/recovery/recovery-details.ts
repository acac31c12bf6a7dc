// The recovery of one task with all its facts, and the next step for a blocked one.

import { BLOCKED_WORDS } from "../../../../shared/protocol/alert-text.ts";
import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { Recovery } from "../../../../shared/protocol/recovery-record.ts";
import type { BlockReason } from "../../../../shared/protocol/recovery-states.ts";
import type { Handoff, Task } from "../../../../shared/sdk/sdk.ts";
import type { Presence } from "../../commands/recovery/agent-presence.ts";
import { signedFields } from "../esign/signatures.ts";
import { field, optionalField } from "../terminal/fields.ts";
import { counted, plain, principalText, shownId } from "../terminal/text.ts";
import { exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { presenceText } from "./presence.ts";
import {
  attemptsText,
  inWords,
  nextStepText,
  recoveryFailureText,
  recoveryStateText,
  typeSuffix,
  waitingBlock,
} from "./recovery-text.ts";

export interface RecoveryDetails {
  readonly task: Task;
  /** The handoff of the newest attempt, or the one that no agent accepted; null: there is none, or it cannot be read. */
  readonly handoff: Handoff | null;
  /** The agents of the type that it waits for; null: it waits for no agent. */
  readonly presence: Presence | null;
  /** Of its checkpoint. */
  readonly signatures?: readonly EsignBlock[];
}

/** The agent type that the recovery waits for, or that accepted none of its offers; null: it waits for no agent, or the type is unknown. */
export function awaitedAgentType({
  task,
  handoff,
}: Pick<RecoveryDetails, "task" | "handoff">): string | null {
  const { state } = task.recovery ?? { state: "idle" };
  if (state === "waiting") return task.recovery?.to_agent_type ?? null;
  const wasOffered = state === "attempted" || waitingBlock(task)?.reason === "no_agent";
  return wasOffered ? (handoff?.to_agent_type ?? null) : null;
}

export function renderRecovery(
  { task, handoff, presence, signatures = [] }: RecoveryDetails,
  fleet: string,
  view: View,
): string {
  const { recovery } = task;
  if (recovery === null) return withoutRecovery(task);
  const { now, colors } = view;
  const fact = (name: string, value: string | null): string[] => optionalField(name, value, view);
  const at = (time: string | null): string | null => (time === null ? null : exactly(time, now));
  const { state, failure, choice } = recovery;
  const blocked = waitingBlock(task);
  const type = awaitedAgentType({ task, handoff });
  const from = `the ${recovery.rung} sound checkpoint`;
  const failed = recovery.failures === 0 ? "" : ` after ${counted(recovery.failures, "failure")}`;
  const waiting =
    state === "attempted" || state === "resumed" ? `, ${nextStepText(task, recovery, type, view)}` : "";
  // A handoff blocked the task, and no agent of it has failed.
  const isUntried = recovery.failures === 0 && recovery.attempts === 0 && failure === null;
  return [
    field("Task", `${colors.bold(plain(task.task_id))}, ${task.state}`, view),
    field("Recovery", `${recoveryStateText(state, view)}${waiting}`, view),
    ...fact("Blocked", blocked && `${inWords(blocked.reason)}, ${exactly(blocked.at, now)}`),
    ...fact("Why", blocked?.details == null ? null : plain(blocked.details)),
    ...fact("Attempts", isUntried ? null : `${attemptsText(recovery)}${failed}, from ${from}`),
    ...fact(state === "blocked" ? "Next probe" : "Next attempt", at(recovery.due_at)),
    ...(failure === null ? [] : failureLines(failure, view)),
    ...fact("  action", failure && recovery.action && inWords(recovery.action)),
    ...fact("Requested", requestText(choice)),
    ...fact(
      blocked === null ? "Waits for" : "Offered to",
      task.owner !== null || type === null ? null : `agents of type ${plain(type)}`,
    ),
    ...fact("Available agents", presence && presenceText(presence, task.task_id, now)),
    ...fact("Last attempt", at(recovery.attempted_at)),
    ...fact("From checkpoint", recovery.checkpoint_id && shownId(recovery.checkpoint_id)),
    ...signedFields(recovery.checkpoint_id, signatures, view),
    ...fact("Handoff", recovery.handoff_id ?? (blocked === null ? null : (handoff?.handoff_id ?? null))),
    ...fact("Resumed", at(recovery.resumed_at)),
    field("Owner", `${task.owner === null ? "none" : principalText(task.owner)}, fence ${task.fence}`, view),
    ...adviceOn(task, recovery, fleet, view),
  ].join("\n");
}

function withoutRecovery({ task_id, blocked }: Task): string {
  const name = plain(task_id);
  return blocked?.taken_by == null
    ? `No agent of task ${name} has failed.`
    : `Task ${name} was blocked (${inWords(blocked.reason)}). ${plain(blocked.taken_by)} has taken it.`;
}

/** The caller that requested the recovery, and its reason. */
function requestText(choice: Recovery["choice"]): string | null {
  const parts = [
    choice?.by == null ? null : `by ${principalText(choice.by)}`,
    choice?.reason == null ? null : plain(choice.reason),
  ];
  const given = parts.filter((part) => part !== null);
  return given.length === 0 ? null : given.join(": ");
}

function failureLines(failure: NonNullable<Recovery["failure"]>, view: View): string[] {
  const { agent_type: type, signal, details, last_sign_at: sign, resets_at: resets } = failure;
  const lines = [
    field(
      "Last failure",
      `${recoveryFailureText(failure)}${typeSuffix(type)}, ${exactly(failure.noted_at, view.now)}`,
      view,
    ),
    field("  detected by", inWords(signal), view),
  ];
  if (details !== null) lines.push(field("  details", plain(details), view));
  if (sign !== null) lines.push(field("  last sign of life", exactly(sign, view.now), view));
  if (resets !== null) lines.push(field("  rate limit resets", exactly(plain(resets), view.now), view));
  return lines;
}

/** The next step for an operator, with commands to copy; nothing if the recovery needs no help. */
function adviceOn(task: Task, { state, handoff_id }: Recovery, fleet: string, view: View): string[] {
  const blocked = waitingBlock(task);
  const { task_id: id, owner, latest_id } = task;
  const steps = (text: string, calls: readonly string[]): string[] => [
    "",
    plain(text),
    ...calls.map((call) => `  ${view.colors.cyan(plain(`${fleet} ${call}`))}`),
  ];
  if (blocked !== null) {
    // A task without a checkpoint needs one first, also if it is blocked for another reason: each retry would be refused.
    const reason = latest_id === null ? "no_checkpoint" : blocked.reason;
    return steps(BLOCKED_WORDS[reason], HELP[reason](id, task));
  }
  if (state !== "attempted" || owner !== null) return [];
  return steps(
    "The task is offered, and continues when an agent accepts it. Check that an agent of its type runs:",
    ["agents list", `handoff show ${handoff_id ?? id}`],
  );
}

const retry = (task: string): string[] => [
  `audit show ${task}`,
  `recovery start ${task} --dry-run`,
  `recovery reset ${task}`,
];

/** The owner whose handoff failed may be alive. */
const anotherOffer = (task: string, { owner }: Task): string =>
  owner === null ? `recovery run ${task}` : `recovery start ${task} --force`;

/** The commands for each reason: first those that show the cause, last the one that fixes it. */
const HELP: Readonly<Record<BlockReason, (task: string, head: Task) => string[]>> = {
  attempts_spent: retry,
  too_many_attempts: retry,
  unrecoverable: retry,
  chain_broken: (task) => [
    `audit verify ${task}`,
    `checkpoint list --task ${task}`,
    `recovery start ${task} --dry-run --from <checkpoint>`,
  ],
  no_checkpoint: (task, { agent_type: type, recovery }) => [
    `audit show ${task}`,
    `checkpoint --task ${task} --type ${recovery?.failure?.agent_type ?? type ?? "<type>"} --phase planning --next "Begin"`,
    `recovery run ${task}`,
  ],
  no_agent: (task, head) => ["agents list", `handoff show ${task}`, anotherOffer(task, head)],
  agent_type_unknown: (task, { owner }) => [
    `handoff show ${task}`,
    `recovery start ${task} --to <type>${owner === null ? "" : " --force"}`,
  ],
  prompt_over_budget: (task, head) => [`handoff show ${task}`, anotherOffer(task, head)],
  withdrawn: (task) => [`handoff show ${task}`, `recovery run ${task}`],
  checkpoint_corrupt: (task) => [`recovery show ${task}`, `audit verify ${task}`],
};
