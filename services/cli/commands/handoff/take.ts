// `fleet handoff take`: accepts the offer of a task, so that a person continues it in place of an agent.

import type { Command } from "commander";
import type { Handoff } from "../../../../shared/sdk/sdk.ts";
import { COMMAND_ID } from "../../input/call-options.ts";
import { bareId } from "../../input/id.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { namedHandoff } from "./named-handoff.ts";

interface Flags {
  readonly commandId?: string;
  readonly quiet?: boolean;
}

export function addHandoffTake(group: Command, action: ActionFactory): void {
  const command = group
    .command("take")
    .summary("Accept an offered task: you own it, in place of an agent.")
    .description(
      "Accept an offered task: you own it, under a new fence, and no agent receives the offer any more. Write a first checkpoint " +
        "before the deadline that is printed, or the handoff lapses.",
    )
    .argument("<task>", "the offered task, or its handoff")
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .option("-q, --quiet", "print only the fence")
    .action(action(take));
  withExamples(command, (fleet) => ({
    "The tasks that are offered": `${fleet} handoff list --state offered`,
    "Continue one of them": `${fleet} handoff take auth`,
    "In a script": `FENCE=$(${fleet} handoff take auth -q) && ${fleet} resume auth`,
  }));
}

async function take(session: Session, name: string, { commandId, quiet }: Flags): Promise<void> {
  const handoff = await namedHandoff(session, name);
  // A call that repeats its command id receives its first answer again.
  if (commandId === undefined) await requireOffer(handoff);
  const { task_id, handoff_id, checkpoint_id, to_agent_type, offer_digest } = handoff;
  const client = await session.client();
  const offer = { task_id, handoff_id, agent_type: to_agent_type ?? "", digest: offer_digest ?? "" };
  const taken = await client.acknowledgeHandoff(
    { ...offer, checkpoint: { id: checkpoint_id } },
    { ...session.deadline, commandId },
  );
  const fence = taken.task.fence ?? 0;
  const facts = { handoff, owner: client.agentId, fence, deadline: taken.deadline };
  const { renderTakenOffer, takenOfferData } = await import("../../rendering/handoff/taken-offer.ts");
  await session.show(takenOfferData(facts), () =>
    quiet ? String(fence) : renderTakenOffer(facts, session.programName, session.view),
  );
}

/** The fleet would refuse it as well. Here the answer names the state. */
async function requireOffer({ handoff_id, task_id, state, accepted_by }: Handoff): Promise<void> {
  if (state === "offered") return;
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  const isEarly = state === "requested" || state === "validated";
  throw new FleetError(
    "CONFLICT",
    isEarly ? "the task is not offered yet; try again in a moment" : "the task is not offered",
    { details: { task_id, handoff_id, state, ...(accepted_by !== null && { accepted_by }) } },
  );
}
