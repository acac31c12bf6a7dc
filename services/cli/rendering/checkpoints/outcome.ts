// The outcome of a command, for operators.

import { phaseSchema } from "../../../../shared/protocol/checkpoint.ts";
import { reasonText } from "../../../../shared/sdk/agent/messages.ts";
import { toSnake } from "../../../../shared/sdk/case-convert.ts";
import type { CheckpointOutcome, HandoffOutcome } from "../../../../shared/sdk/client/outcome.ts";
import type { MissionCheckpoint } from "../../../../shared/sdk/mission/mission.ts";
import { objectOf } from "../../input/checkpoint/checkpoint.ts";
import type { JsonObject } from "../../input/document.ts";
import { percentText, plain, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

/** The outcome as JSON: in snake_case, and with the outcome itself as `status`. */
export function outcomeData(
  outcome: CheckpointOutcome | HandoffOutcome | MissionCheckpoint,
): JsonObject & { readonly status: string } {
  const { outcome: status, ...rest } = outcome;
  return { status, ...(toSnake(rest) as JsonObject) };
}

/** `done`: the change in words, as in "Checkpoint created". */
export function renderOutcome(outcome: CheckpointOutcome, done: string, view: View): string[] {
  const { colors } = view;
  const id = colors.bold(shownId(String(outcome.checkpointId)));
  if (outcome.outcome === "queued") {
    return [
      `${colors.yellow(`Queued, not yet applied: ${pending(done)}`)} ${id}`,
      `Task: ${outcome.taskId}`,
      `The store or the writer is unavailable. The command is kept at position ${outcome.position} of the queue and will be applied once, in order.`,
    ];
  }
  if (outcome.outcome === "spooled") {
    return [
      `${colors.yellow(`Spooled, not yet sent: ${pending(done)}`)} ${id}`,
      `Task: ${outcome.taskId}`,
      "The bus is unavailable. The command is kept on this machine's disk and will be sent when the bus answers.",
      `Spool: ${outcome.spool}`,
    ];
  }
  const again = outcome.replayed ? " (by an earlier call with this command id)" : "";
  return [
    `${colors.green(`${done}:`)} ${id}${again}`,
    `Task: ${outcome.taskId}`,
    `Version: ${outcome.version}, checkpoint ${outcome.seq} of the task`,
  ];
}

/** `command`: the call that requests the handoff. */
export function renderAdvice(outcome: CheckpointOutcome, command: string, { colors }: View): string[] {
  const fired = outcome.outcome === "committed" ? (outcome.handoffAdvised ?? []) : [];
  if (fired.length === 0) return [];
  const reasons = fired.map((one) => colors.yellow(`A handoff is advised: ${plain(reasonText(one))}`));
  return [...reasons, `Request it: ${command}`];
}

/** "Checkpoint created" before it happens: "checkpoint to be created". */
function pending(done: string): string {
  const [what = "", how = ""] = done.toLowerCase().split(" ");
  return `${what} to be ${how}`;
}

/** The name under which the phase is stored: a work artifact has other names for two of them. */
const storedPhase = (phase: unknown): string => phaseSchema.safeParse(phase).data ?? String(phase);

/** The main fields of a new checkpoint, for the lines below {@link renderOutcome}. */
export function renderWritten(checkpoint: JsonObject): string[] {
  const state = objectOf(checkpoint.execution_state);
  const size = (name: string) => (Array.isArray(state[name]) ? (state[name] as unknown[]).length : 0);
  const items = [size("completed_items"), size("pending_items"), size("blocked_items")] as const;
  const { details } = objectOf(objectOf(checkpoint.metadata).trigger);
  return [
    `Phase: ${plain(storedPhase(state.phase))}`,
    ...(typeof state.progress_percent === "number"
      ? [`Progress: ${percentText(state.progress_percent)}`]
      : []),
    ...(items.some((number) => number > 0)
      ? [`Items: ${items[0]} completed, ${items[1]} pending, ${items[2]} blocked`]
      : []),
    ...(typeof details === "string" ? [`Note: ${plain(details)}`] : []),
  ];
}
