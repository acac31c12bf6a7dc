/** Warnings: facts that are no error of the call, but that the caller should see. */

import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import type { FleetError } from "../../protocol/errors.ts";
import type { RedactedPart } from "../../protocol/redaction-report.ts";
import type { AsideReason, SpooledCommand } from "../spool/line.ts";
import { SPOOL_KEY } from "../spool/seal.ts";

export interface FleetWarning {
  readonly code:
    | "CHECKPOINT_CORRUPT"
    | "CHECKPOINT_RESTORED"
    | "DEFAULT_ADDRESS"
    | "LARGE_CHECKPOINT"
    | "OTHER_FLEET"
    | "REDACTED"
    | "SHORTENED_CHECKPOINT"
    | "SPOOL_SET_ASIDE";
  readonly text: string;
  readonly details: Readonly<Record<string, unknown>>;
}

export type OnWarning = (warning: FleetWarning) => void;

export function emitProcessWarning({ code, text, details }: FleetWarning): void {
  process.emitWarning(text, { type: "FleetWarning", code, detail: JSON.stringify(details) });
}

/** `passedOver`: checkpoints that are newer than the one that was found. */
export function warnOfCorrupt(
  onWarning: OnWarning,
  taskId: string,
  passedOver: readonly CorruptCheckpoint[],
): void {
  for (const corrupt of passedOver) {
    onWarning({
      code: "CHECKPOINT_CORRUPT",
      text: "a newer checkpoint is corrupt and was passed over",
      details: { task_id: taskId, ...corrupt },
    });
  }
}

/** Returns the answer. The store had lost these versions, or held them corrupt. */
export function warnOfRestored<A extends { readonly restored?: readonly CorruptCheckpoint[] } | null>(
  onWarning: OnWarning,
  answer: A,
): A {
  for (const one of answer?.restored ?? []) {
    onWarning({
      code: "CHECKPOINT_RESTORED",
      text: "a checkpoint was lost or corrupt in the store and was restored from the file mirror",
      details: { ...one },
    });
  }
  return answer;
}

/** The address of which no setting and no record states that it is meant. */
export function warnOfDefault(onWarning: OnWarning, url: string): void {
  onWarning({
    code: "DEFAULT_ADDRESS",
    text: "no fleet is recorded here, so the default address is used",
    details: { url },
  });
}

export function warnOfOtherFleet(onWarning: OnWarning, { message, details }: FleetError): void {
  onWarning({ code: "OTHER_FLEET", text: message, details });
}

export function warnOfShortened(onWarning: OnWarning, taskId: string, leftOut: readonly string[]): void {
  onWarning({
    code: "SHORTENED_CHECKPOINT",
    text: "the checkpoint was too large and was shortened",
    details: { task_id: taskId, left_out: leftOut },
  });
}

const SET_ASIDE: Readonly<Partial<Record<AsideReason, string>>> = {
  damaged: "a damaged line of the spool was set aside; a process that is killed while it writes leaves one",
  newer:
    "a line of the spool was set aside, because a newer version of Fleet wrote it; use that version to send it",
  sealed:
    "a sealed command of the spool was set aside, because its key is not named; name the key, and send it with `fleet spool reopen`",
};

/** `command` undefined: the line has none that could be read. */
export function warnOfAside(
  onWarning: OnWarning,
  spool: string,
  reason: AsideReason,
  command: SpooledCommand | undefined,
): void {
  const key = reason === "sealed" ? { setting: SPOOL_KEY, key_id: command?.sealed?.key.root } : {};
  onWarning({
    code: "SPOOL_SET_ASIDE",
    text: SET_ASIDE[reason] ?? "a spooled command cannot be sent and was set aside for an operator",
    details: { reason, spool, task_id: command?.taskId, command_id: command?.commandId, ...key },
  });
}

/** The members of a command in which secrets stood: the first ones, if they are many. */
export function warnOfRedacted(
  onWarning: OnWarning,
  taskId: string,
  redacted: readonly RedactedPart[],
): void {
  const shown = redacted.slice(0, PARTS_SHOWN).map(({ path, rule }) => `${path} (${rule})`);
  const more = redacted.length > PARTS_SHOWN ? ["and others"] : [];
  onWarning({
    code: "REDACTED",
    text: "secrets were removed before the command was sent",
    details: { task_id: taskId, redacted: [...shown, ...more] },
  });
}

const PARTS_SHOWN = 5;

export function warnOfLarge(onWarning: OnWarning, taskId: string, checkpointId: string): void {
  onWarning({
    code: "LARGE_CHECKPOINT",
    text: "the checkpoint is large; keep artifacts elsewhere and refer to them",
    details: { checkpoint_id: checkpointId, task_id: taskId },
  });
}
