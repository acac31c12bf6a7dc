/** Tasks on offer, for tests of those who take them: what a coordinator does, done when the test wants it. */
import { uuidv7 } from "uuidv7";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import type { Offering } from "../../../shared/records/handoff/handoff-transitions.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { offering } from "./handoffs.ts";
import { type Bench, create, input } from "./records.ts";

/** From requested to offered, to agents of a type, by default the source's. */
export async function offer(
  repository: CheckpointRepository,
  id: string,
  { toAgentType, ...changes }: Partial<Offering> & { readonly toAgentType?: string } = {},
): Promise<Handoff> {
  const asked = await repository.handoff("default", { handoff_id: id });
  await repository.coordination.validateHandoff("default", id, {
    toAgentType: toAgentType ?? asked.from_agent_type,
  });
  const { applied, handoff } = await repository.coordination.offerHandoff(
    "default",
    id,
    offering(asked, changes),
  );
  if (!applied || handoff === null) throw new Error("the handoff was not offered");
  return handoff;
}

/** A task whose agent has gone, with two items pending, offered to agents of a type; resolves with the handoff's id. */
export async function offeredTask(
  { repository }: Bench,
  task: string,
  agentType: string,
  changes: Partial<Offering> = {},
): Promise<string> {
  const commandId = uuidv7();
  await create(repository, { task, agent: "source" });
  const checkpoint = input({
    phase: "handoff",
    pending_items: ["second", "third"],
    completed_items: ["first"],
  });
  await create(repository, { task, agent: "source", commandId, checkpoint });
  await offer(repository, commandId, { toAgentType: agentType, ...changes });
  return commandId;
}
