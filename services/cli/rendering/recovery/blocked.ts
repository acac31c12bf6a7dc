// Blocked tasks, and the result of each when they are retried together.

import type { RecoveryResult, Task } from "../../../../shared/sdk/sdk.ts";
import { type CallFailure, failureData } from "../../runtime/failure.ts";
import type { Session } from "../../runtime/session.ts";
import { tableLines } from "../terminal/table.ts";
import { count, counted, plain } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { recoveryRequestData } from "./recovery-request.ts";
import { inWords, recoveryFailureText } from "./recovery-text.ts";

export type RetryResult = { readonly taskId: string } & (
  | { readonly outcome: "asked"; readonly result: RecoveryResult }
  /** It is no longer blocked. */
  | { readonly outcome: "passed_over" }
  /** It has no checkpoint to continue from, so it was not tried. */
  | { readonly outcome: "needs_checkpoint" }
  | { readonly outcome: "failed"; readonly failure: CallFailure }
);

/** Operators copy the task. */
const FIT = [{ least: 12, names: true }, undefined, { brief: brieflyAgo }, undefined, { leaves: 2 }] as const;

export const needsCheckpoint = ({ latest_id }: Task): boolean => latest_id === null;

/** `skipped`: the tasks without a checkpoint. */
export function renderBlocked(
  tasks: readonly Task[],
  skipped: readonly Task[],
  { view, programName }: Pick<Session, "view" | "programName">,
): string {
  const parts = [
    ...(tasks.length === 0 ? [] : [[...tableOf(tasks, view), "", counted(tasks.length, "task")]]),
    ...(skipped.length === 0
      ? []
      : [
          [
            `Skipped, because ${skipped.length === 1 ? "it has" : "they have"} no checkpoint; \`${programName} recovery show <task>\` shows how to write one:`,
            "",
            ...tableOf(skipped, view),
          ],
        ]),
  ];
  return parts.map((lines) => lines.join("\n")).join("\n\n");
}

function tableOf(tasks: readonly Task[], view: View): string[] {
  const rows = tasks.map(({ task_id, agent_type, recovery, blocked }) => {
    const { failure = null } = recovery ?? {};
    return [
      plain(task_id),
      inWords(blocked?.reason ?? "-"),
      blocked === null ? "-" : ago(blocked.at, view.now),
      plain(failure?.agent_type ?? agent_type ?? "-"),
      failure === null ? "-" : recoveryFailureText(failure),
    ];
  });
  const heads = ["TASK", "BLOCK", "SINCE", "AGENT TYPE", "LAST FAILURE"];
  return tableLines(rows, { heads, view, fit: FIT });
}

/** A task that would be retried, as JSON. */
export function blockedData(task: Task): object {
  const { task_id, agent_type, recovery, blocked } = task;
  const { failure = null } = recovery ?? {};
  return {
    dry_run: true,
    task_id,
    blocked,
    agent_type: failure?.agent_type ?? agent_type,
    class: failure?.class ?? null,
    needs_checkpoint: needsCheckpoint(task),
  };
}

export function renderRetryResult(
  one: RetryResult,
  { number, of }: { readonly number: number; readonly of: number },
  { colors }: View,
): string {
  return `${count(number)} of ${count(of)}  ${colors.bold(plain(one.taskId))}  ${outcomeText(one, colors)}`;
}

function outcomeText(one: RetryResult, colors: View["colors"]): string {
  switch (one.outcome) {
    case "asked":
      return `${colors.green("recovery requested")}, fence ${one.result.fence}`;
    case "passed_over":
      return colors.dim("no longer blocked");
    case "needs_checkpoint":
      return colors.yellow("has no checkpoint");
    case "failed": {
      const { code, message } = one.failure.body;
      return `${colors.red("failed:")} ${plain(message)} [${code}]`;
    }
  }
}

export function retryResultData(one: RetryResult): object {
  const data = { task_id: one.taskId, outcome: one.outcome };
  switch (one.outcome) {
    case "asked":
      return { ...data, ...recoveryRequestData(one.result) };
    case "passed_over":
    case "needs_checkpoint":
      return data;
    case "failed":
      return { ...data, error: failureData(one.failure) };
  }
}

export function retrySummary(results: readonly RetryResult[], of: number): string {
  const many = (outcome: RetryResult["outcome"]): number =>
    results.filter((one) => one.outcome === outcome).length;
  const parts = [`${count(many("asked"))} requested`];
  if (many("passed_over") > 0) parts.push(`${count(many("passed_over"))} no longer blocked`);
  if (many("failed") > 0) parts.push(`${count(many("failed"))} failed`);
  const left = of - results.length;
  return `${parts.join(", ")}${left === 0 ? "" : `; ${count(left)} not tried, repeat the call to continue`}`;
}
