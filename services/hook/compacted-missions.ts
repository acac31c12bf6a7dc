/**
 * The missions of an agent whose context is compacted (seed 002, US-304): each is recorded with the trigger `compaction`
 * and can be resumed at once. A repetition of the event uses the same ids, so a mission is recorded once.
 */
import type { AgentSession } from "../../shared/protocol/turns.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { type FleetClient, FleetError, type Mission } from "../../shared/sdk/sdk.ts";
import { saveCommandId } from "./saved-work.ts";

export interface Compaction {
  readonly session: AgentSession;
  /** The task of the session, which may be a mission. */
  readonly taskId: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Throws a retryable FleetError while the fleet does not answer. */
export async function reportCompaction(
  client: FleetClient,
  log: Logger,
  { session, taskId, at }: Compaction,
): Promise<void> {
  for (const mission of await missionsOf(client, taskId)) {
    const { mission_id, coordinator } = mission;
    const facts = { agent_id: session.agent_id, mission_id };
    const fence = coordinator === client.agentId ? mission.fence : undefined;
    const commandId = saveCommandId({ ...session, session_id: `${session.session_id}/${mission_id}` }, at);
    const note = `${session.vendor} compacts the context of ${session.agent_id}`;
    try {
      await client.mission(mission_id, { fence }).reportCompaction({ note, commandId });
      log.info(facts, "compaction reported to a mission");
    } catch (error) {
      if (error instanceof FleetError && error.retryable) throw error;
      log.warn({ ...facts, error }, "a compaction was not reported to a mission");
    }
  }
}

async function missionsOf(client: FleetClient, taskId: string): Promise<readonly Mission[]> {
  const own = await client.missions.own();
  if (own.some(({ mission_id }) => mission_id === taskId)) return own;
  // A mission without an owner is coordinated by the session that has it as its task.
  const mission = await client.mission(taskId).state();
  const isActive = mission !== null && mission.ended_at === null && mission.coordinator === null;
  return isActive ? [...own, mission] : own;
}
