// `fleet handoff take`: accepts the offer of a task, so that a person continues it in place of an agent.

import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
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

/** The pause between two looks at a handoff that is not offered yet. */
const LOOK_MS = 100;

export function addHandoffTake(group: Command, action: ActionFactory): void {
  const command = group
    .command("take")
    .summary("Accept an offered task: you own it, in place of an agent.")
    .description(
      "Accept an offered task: you own it, under a new fence, and no agent receives the offer any more. Write a first checkpoint " +
        "before the deadline that is printed, or the handoff lapses. A handoff that was just created is awaited until it is offered.",
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
  const found = await namedHandoff(session, name);
  const handoff = await awaitOffer(session, found);
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
  const { besideMember, signaturesOfNamed } = await import("../esign/shown-signatures.ts");
  const signatures = quiet ? [] : await signaturesOfNamed(session, task_id, [checkpoint_id]);
  const facts = { handoff, owner: client.agentId, fence, deadline: taken.deadline, signatures };
  const { renderTakenOffer, takenOfferData } = await import("../../rendering/handoff/taken-offer.ts");
  await session.show({ ...takenOfferData(facts), ...besideMember(signatures) }, () =>
    quiet ? String(fence) : renderTakenOffer(facts, session.programName, session.view),
  );
}

/** Resolves with the handoff when it is offered, has ended, or the time of the call is over. */
async function awaitOffer(session: Session, handoff: Handoff): Promise<Handoff> {
  const end = performance.now() + (session.deadline.deadlineMs ?? LIMITS.request_deadline_ms_default);
  let current = handoff;
  while (isEarly(current) && performance.now() < end) {
    await sleep(LOOK_MS);
    current = await namedHandoff(session, handoff.handoff_id);
  }
  return current;
}

const isEarly = ({ state }: Handoff): boolean => state === "requested" || state === "validated";

/** The fleet would refuse it as well. Here the answer names the state. */
async function requireOffer(handoff: Handoff): Promise<void> {
  const { handoff_id, task_id, state, accepted_by } = handoff;
  if (state === "offered") return;
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  throw new FleetError(
    "CONFLICT",
    isEarly(handoff) ? "the task is not offered yet; try again in a moment" : "the task is not offered",
    { details: { task_id, handoff_id, state, ...(accepted_by !== null && { accepted_by }) } },
  );
}
