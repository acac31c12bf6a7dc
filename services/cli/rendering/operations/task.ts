// The state of a task, for operators.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { TaskShred } from "../../../../shared/protocol/shred.ts";
import type { Handoff, Task } from "../../../../shared/sdk/sdk.ts";
import { signedFields } from "../esign/signatures.ts";
import { inWords, recoveryLine } from "../recovery/recovery-text.ts";
import { field } from "../terminal/fields.ts";
import { count, counted, plain, principalText, shownId } from "../terminal/text.ts";
import { exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

/** A task that was taken but never written to has none. */
function lastAgent({ agent_id, agent_type }: Task): string {
  return agent_id === null ? "none yet" : `${principalText(agent_id)} (${plain(agent_type ?? "-")})`;
}

function blockText({ reason, details, at }: NonNullable<Task["blocked"]>, { now }: View): string {
  return `${inWords(reason)}${details === null ? "" : `: ${plain(details)}`}, ${exactly(at, now)}`;
}

function handoffText(handoff: Handoff, { now }: View): string {
  const { handoff_id: id, to_agent_type: type, state, deadline } = handoff;
  const to = type === null ? "" : ` to agents of type ${plain(type)}`;
  const until = state === "offered" && deadline !== null ? ` until ${exactly(deadline, now)}` : "";
  return `${plain(id)}${to}, ${state}${until}`;
}

export function retentionText({ policy, holds }: NonNullable<Task["retention"]>): string {
  const kept = policy === null ? "kept as the settings say" : `policy ${plain(policy)} for new checkpoints`;
  if (holds.length === 0) return kept;
  const rest = policy === null ? `otherwise ${kept}` : kept;
  return `on hold (${holds.map((name) => plain(name)).join(", ")}); ${rest}`;
}

/** The state of the task says nothing of it: only this line says that its content is gone, or will be. */
function shredText(
  task: string,
  { state, approved_at, ended_at, expires_at }: TaskShred,
  now: number,
): string {
  const since = (time: string | null): string => (time === null ? "" : `, ${exactly(time, now)}`);
  if (state === "requested")
    return `requested, not approved; another person may approve it until ${exactly(expires_at, now)}`;
  if (state === "approved") return `approved${since(approved_at)}; all content is being removed`;
  return `all content is removed${since(ended_at)}; proved by \`fleet task shred-certificate ${plain(task)}\``;
}

interface BesideTask {
  /** The open one; null: there is none, or it cannot be read. */
  readonly handoff?: Handoff | null;
  /** Of the checkpoints that the task names. */
  readonly signatures?: readonly EsignBlock[];
}

export function renderTask(
  task: Task,
  view: View,
  { handoff = null, signatures = [] }: BesideTask = {},
): string {
  const { now } = view;
  const { latest_id: latest, last_successful_id: successful } = task;
  const isGone = task.shred?.state === "shredded";
  const named = (id: string): string => `${shownId(id)}${isGone ? ", removed" : ""}`;
  const { retention } = task;
  // What is gone is kept by no policy. A hold was placed by a person, and is shown until it is released.
  const isRetained = retention !== undefined && (!isGone || retention.holds.length > 0);
  const owner = task.owner === null ? "none" : principalText(task.owner);
  return [
    field("Task", view.colors.bold(plain(task.task_id)), view),
    field("State", task.state, view),
    ...(task.shred === undefined ? [] : [field("Shredding", shredText(task.task_id, task.shred, now), view)]),
    field("Phase", task.phase ?? "none yet", view),
    field("Last agent", lastAgent(task), view),
    field("Owner", `${owner}, fence ${task.fence}`, view),
    ...(task.blocked === null ? [] : [field("Blocked", blockText(task.blocked, view), view)]),
    ...(handoff === null ? [] : [field("Handoff", handoffText(handoff, view), view)]),
    ...(task.recovery === null
      ? []
      : [field("Recovery", recoveryLine(task, task.recovery, view, handoff?.to_agent_type), view)]),
    field("Checkpoints", count(task.seq), view),
    field("Latest", latest === null ? "none yet" : named(latest), view),
    ...signedFields(latest, signatures, view),
    field("Last successful", successful === null ? "none" : named(successful), view),
    ...(successful === latest ? [] : signedFields(successful, signatures, view)),
    ...(isRetained ? [field("Retention", retentionText(retention), view)] : []),
    field("Audit trail", `${counted(task.audit_seq, "entry", "entries")}, head ${task.audit_hash}`, view),
    field("Created", exactly(task.created_at, now), view),
    field("Updated", exactly(task.updated_at, now), view),
  ].join("\n");
}
