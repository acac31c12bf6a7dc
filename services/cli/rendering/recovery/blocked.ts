// Tasks that are blocked, and what became of each when they are tried again together.

import type { RecoveryResult, Task } from "../../../../shared/sdk/sdk.ts";
import { type CallFailure, failureData } from "../../runtime/failure.ts";
import type { Session } from "../../runtime/session.ts";
import { tableLines } from "../terminal/table.ts";
import { count, counted, plain } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { failureText, recoveringData } from "./recovery.ts";

export type RetryResult = { readonly taskId: string } & (
  | { readonly outcome: "asked"; readonly result: RecoveryResult }
  /** It is not blocked any more. */
  | { readonly outcome: "passed_over" }
  /** There is nothing to go on from: it was not tried. */
  | { readonly outcome: "needs_checkpoint" }
  | { readonly outcome: "failed"; readonly failure: CallFailure }
);

/** The task is what people copy. */
const FIT = [{ least: 12 }, undefined, { brief: brieflyAgo }, undefined, { leaves: 2 }] as const;

export const needsCheckpoint = ({ latest_id }: Task): boolean => latest_id === null;

/** `needing`: those that are left out. */
export function renderBlocked(
  tasks: readonly Task[],
  needing: readonly Task[],
  { view, programName }: Pick<Session, "view" | "programName">,
): string {
  const parts = [
    ...(tasks.length === 0 ? [] : [[...tableOf(tasks, view), "", `Total: ${counted(tasks.length, "task")}`]]),
    ...(needing.length === 0
      ? []
      : [
          [
            `Left out, for ${needing.length === 1 ? "it needs" : "they need"} a checkpoint first; \`${programName} recovery status <task>\` says how:`,
            "",
            ...tableOf(needing, view),
          ],
        ]),
  ];
  return parts.map((lines) => lines.join("\n")).join("\n\n");
}

function tableOf(tasks: readonly Task[], view: View): string[] {
  const rows = tasks.map(({ task_id, agent_type, recovery }) => {
    const { blocked = null, failure = null } = recovery ?? {};
    return [
      plain(task_id),
      (blocked?.reason ?? "-").replaceAll("_", " "),
      blocked === null ? "-" : ago(blocked.at, view.now),
      plain(failure?.agent_type ?? agent_type ?? "-"),
      failure === null ? "-" : failureText(failure),
    ];
  });
  const heads = ["TASK", "BLOCKED", "SINCE", "AGENT TYPE", "LAST FAILURE"];
  return tableLines(rows, { heads, view, fit: FIT });
}

/** Of one that would be tried again. */
export function blockedData(task: Task): object {
  const { task_id, agent_type, recovery } = task;
  const { blocked = null, failure = null } = recovery ?? {};
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
      return `${colors.green("asked for")}, under fence ${one.result.fence}`;
    case "passed_over":
      return colors.dim("not blocked any more");
    case "needs_checkpoint":
      return colors.yellow("needs a checkpoint first");
    case "failed": {
      const { code, message } = one.failure.body;
      return `${colors.red("failed:")} ${plain(message)} [${code}]`;
    }
  }
}

export function retryResultData(one: RetryResult): object {
  const named = { task_id: one.taskId, outcome: one.outcome };
  switch (one.outcome) {
    case "asked":
      return { ...named, ...recoveringData(one.result) };
    case "passed_over":
    case "needs_checkpoint":
      return named;
    case "failed":
      return { ...named, error: failureData(one.failure) };
  }
}

export function summary(told: readonly RetryResult[], of: number): string {
  const many = (outcome: RetryResult["outcome"]): number =>
    told.filter((one) => one.outcome === outcome).length;
  const parts = [`${count(many("asked"))} asked for`];
  if (many("passed_over") > 0) parts.push(`${count(many("passed_over"))} not blocked any more`);
  if (many("failed") > 0) parts.push(`${count(many("failed"))} failed`);
  const left = of - told.length;
  return `${parts.join(", ")}${left === 0 ? "" : `; ${count(left)} not tried, the same call goes on with them`}`;
}
