// What a command came to, for people.

import type { CheckpointOutcome, HandoffOutcome } from "../../../../shared/sdk/client/outcome.ts";
import { objectOf } from "../../input/checkpoint.ts";
import type { JsonObject } from "../../input/document.ts";
import { percentText, plain, shownId } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

/** As the bus carries it: snake_case, and the promise under its own name. */
export function outcomeData(
  outcome: CheckpointOutcome | HandoffOutcome,
): JsonObject & { readonly status: string } {
  const { outcome: status, ...rest } = outcome;
  const entries = Object.entries(rest).map(([key, value]) => [
    key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    value,
  ]);
  return { status, ...Object.fromEntries(entries) };
}

/** `done`: what was done, as in "Checkpoint created". */
export function renderOutcome(outcome: CheckpointOutcome, done: string, view: View): string[] {
  const { colors } = view;
  const id = colors.bold(shownId(String(outcome.checkpointId)));
  if (outcome.outcome === "queued") {
    return [
      `${colors.yellow(`Queued, not yet carried out: ${verb(done)}`)} ${id}`,
      `Task: ${outcome.taskId}`,
      `Store or writer is away; the command is kept (place ${outcome.position} in the queue) and will be carried out once, in order.`,
    ];
  }
  if (outcome.outcome === "spooled") {
    return [
      `${colors.yellow(`Spooled, not yet sent: ${verb(done)}`)} ${id}`,
      `Task: ${outcome.taskId}`,
      "No bus answers; the command is on this machine's disk and will be sent when one does.",
    ];
  }
  const again = outcome.replayed ? " (it had been before: same command id)" : "";
  return [
    `${colors.green(`${done}:`)} ${id}${again}`,
    `Task: ${outcome.taskId}`,
    `Version: ${outcome.version}, checkpoint ${outcome.seq} of the task`,
  ];
}

/** "Checkpoint created" as what is still to be: "checkpoint to be created". */
function verb(done: string): string {
  const [what = "", how = ""] = done.toLowerCase().split(" ");
  return `${what} to be ${how}`;
}

/** What a new checkpoint says about the work, below {@link renderOutcome}. */
export function renderWritten(checkpoint: JsonObject): string[] {
  const state = objectOf(checkpoint.execution_state);
  const size = (name: string) => (Array.isArray(state[name]) ? (state[name] as unknown[]).length : 0);
  const items = [size("completed_items"), size("pending_items"), size("blocked_items")] as const;
  const { details } = objectOf(objectOf(checkpoint.metadata).trigger);
  return [
    `Phase: ${plain(String(state.phase))}`,
    ...(typeof state.progress_percent === "number"
      ? [`Progress: ${percentText(state.progress_percent)}`]
      : []),
    ...(items.some((number) => number > 0)
      ? [`Items: ${items[0]} completed, ${items[1]} pending, ${items[2]} blocked`]
      : []),
    ...(typeof details === "string" ? [`Note: ${plain(details)}`] : []),
  ];
}
