// The audit log for people: its checkpoint, a receipt, and whether it continues a kept checkpoint.

import type { AuditLogState } from "../../../../shared/protocol/audit-log.ts";
import type { JudgedReceipt } from "../../../../shared/transfer/audit-receipt.ts";
import type { StatedRestore } from "../../../../shared/transfer/stated-restore.ts";
import { count, counted, plain } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const MS_PER_SECOND = 1_000;

export function renderAuditLog({ size, at, checkpoint, delay_ms }: AuditLogState, view: View): string {
  const seconds = Math.ceil(delay_ms / MS_PER_SECOND);
  const delay =
    seconds === 0 ? "every entry is in it" : `the oldest missing entry is ${count(seconds)} s old`;
  const grown = at === null ? "" : `, last grown ${ago(at, view.now)}`;
  const head = `${counted(size, "entry", "entries")}${grown}; ${delay}`;
  if (checkpoint === null) return `${head}\n${view.colors.yellow("not signed: there is no signing key")}`;
  return [
    head,
    "",
    ...checkpoint
      .trimEnd()
      .split("\n")
      .map((line) => plain(line)),
  ].join("\n");
}

/** `isCompared`: the caller has named the keys that it trusts. */
export function renderAuditReceipt(
  { problem, receipt, key_id, size }: JudgedReceipt,
  isCompared: boolean,
  { colors }: View,
): string {
  if (problem !== null) return colors.red(`The receipt is NOT valid: ${problem}.`);
  const task = receipt?.task_id ?? null;
  const chain = task === null ? "the tenant's chain" : `task ${plain(task)}`;
  const entry = `Entry ${count(receipt?.seq ?? 0)} of ${chain}`;
  const place = `${entry} is number ${count(receipt?.index ?? 0)} of ${count(size ?? 0)} in the log.`;
  if (isCompared) return [colors.green("The receipt is valid."), place].join("\n");
  return [
    colors.yellow("The receipt is valid if its key is the fleet's."),
    place,
    `Its key is ${key_id}. Compare it with the one that you keep, or give it with --key.`,
  ].join("\n");
}

export function renderContinuation(
  {
    problem,
    restored,
    kept_size,
    size,
  }: {
    readonly problem: string | null;
    readonly restored: StatedRestore | null;
    readonly kept_size: number | null;
    readonly size: number;
  },
  view: View,
): string {
  const { colors } = view;
  if (restored !== null) {
    const { at, by, backup_at, lost } = restored;
    const gone = lost === 1 ? "1 entry after it is" : `${count(lost)} entries after it are`;
    return [
      colors.yellow("The log does not continue the checkpoint, and a signed entry of it states why:"),
      `The store was restored at ${plain(at)} by ${plain(by)} from a backup of ${plain(backup_at)}; ${gone} gone.`,
      "Ask the operators whether this restore was theirs.",
    ].join("\n");
  }
  if (problem !== null) return colors.red(`The log does NOT continue the checkpoint: ${problem}.`);
  const kept = counted(kept_size ?? 0, "entry", "entries");
  return [colors.green("The log continues the checkpoint."), `${kept} then, ${count(size)} now`].join("\n");
}
