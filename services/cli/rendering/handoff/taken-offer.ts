// An offer that a person has accepted, with the next steps.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { Handoff } from "../../../../shared/sdk/sdk.ts";
import { signedFields } from "../esign/signatures.ts";
import { plain, principalText, shownId } from "../terminal/text.ts";
import { exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export interface TakenOffer {
  /** As it was offered. */
  readonly handoff: Handoff;
  readonly owner: string;
  readonly fence: number;
  /** The time until which the first checkpoint must be written. */
  readonly deadline: string;
  /** Of its checkpoint. */
  readonly signatures: readonly EsignBlock[];
}

export function takenOfferData({ handoff, owner, fence, deadline }: TakenOffer): object {
  const { task_id, handoff_id, checkpoint_id } = handoff;
  return { task_id, handoff_id, checkpoint_id, owner, fence, deadline };
}

export function renderTakenOffer(
  { handoff, owner, fence, deadline, signatures }: TakenOffer,
  fleet: string,
  view: View,
): string {
  const { colors, now } = view;
  const task = plain(handoff.task_id);
  const type = plain(handoff.to_agent_type ?? "<type>");
  return [
    `${colors.green("Taken:")} task ${task}, by ${principalText(owner)}`,
    `Fence: ${fence}; give it with every command on the task`,
    `Checkpoint: ${shownId(handoff.checkpoint_id)}`,
    ...signedFields(handoff.checkpoint_id, signatures, view),
    `First checkpoint: due by ${exactly(deadline, now)}`,
    "",
    "Next:",
    `  ${fleet} resume ${task}`,
    `  ${fleet} checkpoint -t ${task} --fence ${fence} --type ${type} --phase ${handoff.next_phase ?? "implementing"} --next "…"`,
    `  ${fleet} handoff create ${task} --fence ${fence}`,
  ].join("\n");
}
