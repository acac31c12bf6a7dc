// The summary of a continuation prompt and the state of the workspace, for operators and as JSON.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import { WORKSPACE_FINDINGS } from "../../../../shared/protocol/workspace.ts";
import { displayedSignatures } from "../../../../shared/sdk/esign/display.ts";
import type { Checkpoint, Prompt, Task, WorkspaceDrift } from "../../../../shared/sdk/sdk.ts";
import { signedFields } from "../esign/signatures.ts";
import { bulletList, field } from "../terminal/fields.ts";
import { count, plain, principalText, shownId } from "../terminal/text.ts";
import { exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export interface ResumeSummary {
  readonly task: Task;
  readonly checkpoint: Checkpoint;
  /** Of all its versions. */
  readonly signatures: readonly EsignBlock[];
  readonly prompt: Prompt;
  /** undefined: the workspace was not compared, or not recorded. */
  readonly drift: WorkspaceDrift | undefined;
  /** The folder of the workspace; undefined: it is not compared. */
  readonly folder: string | undefined;
  /** The file of the prompt. */
  readonly out: string | undefined;
}

export function resumeData({
  task,
  checkpoint,
  signatures,
  prompt,
  drift,
  folder,
  out,
}: ResumeSummary): object {
  const { style, tokens, characters, tokenizer, secrets, leftOut } = prompt;
  return {
    task_id: task.task_id,
    state: task.state,
    owner: task.owner,
    fence: task.fence,
    checkpoint_id: checkpoint.metadata.checkpoint_id,
    version: checkpoint.metadata.version,
    agent_id: checkpoint.metadata.agent_id,
    ...displayedSignatures(checkpoint, signatures),
    style,
    tokens,
    characters,
    tokenizer,
    secrets,
    left_out: leftOut,
    workspace: drift === undefined ? null : { folder, ...drift },
    ...(out !== undefined && { out }),
  };
}

export function renderResume(
  { task, checkpoint, signatures, prompt, drift, folder, out }: ResumeSummary,
  view: View,
): string {
  const { metadata } = checkpoint;
  const { colors, now } = view;
  const owner = task.owner === null ? "none" : principalText(task.owner);
  const where = out === undefined ? "not written" : `written to ${out}`;
  return [
    field("Task", `${colors.bold(plain(task.task_id))}, ${task.state}`, view),
    field("Owner", `${owner}, fence ${task.fence}`, view),
    field("Checkpoint", `${shownId(metadata.checkpoint_id)}, version ${metadata.version}`, view),
    ...signedFields(metadata.checkpoint_id, signatures, view),
    field("Agent", `${principalText(metadata.agent_id)} (${plain(metadata.agent_type)})`, view),
    field("Created", exactly(metadata.timestamp, now), view),
    field("Prompt", `${sizes(prompt)}, ${where}`, view),
    ...bulletList("Left out", prompt.leftOut.map(leftOutText), view),
    "",
    field("Workspace", workspaceText(checkpoint, drift, folder, view), view),
    ...(drift?.findings ?? []).map((finding) => `  - ${findingText(finding)}`),
  ].join("\n");
}

function sizes({ style, tokens, characters, tokenizer, secrets }: Prompt): string {
  const about = tokenizer === "o200k_base" ? "" : "about ";
  const redacted = secrets === 0 ? "" : `, ${secrets} secrets replaced`;
  return `${style}, ${about}${count(tokens)} tokens, ${count(characters)} characters${redacted}`;
}

function leftOutText({ section, items, shortened }: Prompt["leftOut"][number]): string {
  const parts = [
    ...(items === 0 ? [] : [`${count(items)} left out`]),
    ...(shortened === 0 ? [] : [`${count(shortened)} shortened`]),
  ];
  return `${section.replaceAll("_", " ")}: ${parts.join(", ")}`;
}

function workspaceText(
  { recovery }: Checkpoint,
  drift: WorkspaceDrift | undefined,
  folder: string | undefined,
  { colors }: View,
): string {
  if (drift === undefined) return recovery.workspace === undefined ? "not recorded" : "not compared";
  const paint = { ok: colors.green, drift: colors.yellow, conflict: colors.red }[drift.grade];
  return `${paint(drift.grade)} in ${plain(folder ?? "")}`;
}

function findingText({ kind, grade, path, recorded, found }: WorkspaceDrift["findings"][number]): string {
  const values = [
    ...(recorded === undefined ? [] : [`recorded ${plain(recorded)}`]),
    ...(found === undefined ? [] : [`now ${plain(found)}`]),
  ].join(", ");
  const about = path === undefined ? "" : `${plain(path)}: `;
  return `${grade}  ${about}${WORKSPACE_FINDINGS[kind].text}${values === "" ? "" : ` (${values})`}`;
}
