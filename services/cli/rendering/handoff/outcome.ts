// A requested and a cancelled handoff, for operators.

import type { HandoffOutcome } from "../../../../shared/sdk/client/outcome.ts";
import type { FleetClient, Handoff, Task } from "../../../../shared/sdk/sdk.ts";
import { outcomeData } from "../checkpoints/outcome.ts";
import { plain, principalText, shownId } from "../terminal/text.ts";
import { exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

/** `handoff`: its record; null: not known yet. */
export function handedOffData(outcome: HandoffOutcome, handoff: Handoff | null): object {
  const { to_agent_type = null, attempt = 0, max_attempts = null, deadline = null } = handoff ?? {};
  return { ...outcomeData(outcome), to_agent_type, attempt, max_attempts, deadline };
}

/** `handoff`: its record; null: not known yet. */
export function renderHandedOff(
  outcome: HandoffOutcome,
  handoff: Handoff | null,
  fleet: string,
  { colors, now }: View,
): string {
  const id = colors.bold(outcome.handoffId);
  const follow = `Follow it: ${fleet} handoff show ${outcome.handoffId}`;
  if (outcome.outcome === "committed") {
    return [
      `${colors.green("Handoff requested:")} ${id}`,
      `Task: ${plain(outcome.taskId)}`,
      ...(handoff?.to_agent_type == null ? [] : [`To: agents of type ${plain(handoff.to_agent_type)}`]),
      ...(handoff === null ? [] : offerLine(handoff, now)),
      `Checkpoint: ${shownId(outcome.checkpointId)}`,
      follow,
    ].join("\n");
  }
  const place = outcome.outcome === "queued" ? "in the queue" : "on this machine's disk";
  return [
    `${colors.yellow("Handoff not yet requested:")} ${id}`,
    `Task: ${plain(outcome.taskId)}`,
    `The store, the writer or the bus is unavailable. The command is kept ${place} and will be applied once, in order.`,
    follow,
  ].join("\n");
}

/** The open offer, if the coordinator has made it already. */
function offerLine({ state, attempt, max_attempts: most, deadline }: Handoff, now: number): string[] {
  if (state !== "offered" || deadline === null) return [];
  return [`Offer: ${attempt}${most === null ? "" : ` of ${most}`}, until ${exactly(deadline, now)}`];
}

export type CancelledHandoff = Awaited<ReturnType<FleetClient["cancelHandoff"]>>;

/** `head`: its task after the cancellation; null: unknown. */
export function cancelledData({ taskId, handoffId, state }: CancelledHandoff, head: Task | null): object {
  const after = head && { state: head.state, owner: head.owner, fence: head.fence };
  return { task_id: taskId, handoff_id: handoffId, state, task: after };
}

export function renderCancelled(
  { taskId, handoffId }: CancelledHandoff,
  head: Task | null,
  fleet: string,
  { colors }: View,
): string {
  const task = plain(taskId);
  const isBlocked = head?.state === "blocked";
  return [
    `${colors.green("Cancelled:")} handoff ${handoffId}`,
    `Task: ${task}${head === null ? "" : `, ${isBlocked ? colors.red("blocked: ") : ""}${ownerText(head)}`}`,
    `${isBlocked ? "Retry it" : "Show it"}: ${fleet} ${isBlocked ? "recovery run" : "task show"} ${task}`,
  ].join("\n");
}

function ownerText({ state, owner, fence, blocked }: Task): string {
  if (state === "blocked" && blocked?.reason === "withdrawn")
    return "its agent had failed and it has no owner; operators are alerted";
  return owner === null
    ? "still without an owner"
    : `still owned by ${principalText(owner)} under fence ${fence}`;
}
