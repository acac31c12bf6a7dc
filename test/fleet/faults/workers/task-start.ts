/** Starts a task of workers: its first checkpoint, which is handed off to them. */
import { uuidv7 } from "uuidv7";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { ITEMS } from "./task-kinds.ts";

export async function startTask(client: FleetClient, name: string, agentType: string): Promise<void> {
  const items = Array.from({ length: ITEMS }, (_, i) => ({ title: `item ${i}` }));
  const checkpoint = {
    metadata: { agent_type: agentType },
    execution_state: {
      phase: "handoff",
      pending_items: items,
      resume_pointer: { next_action: "Do the first item", phase: "implementing" },
    },
  } as const;
  await client.createCheckpoint({
    ...{ taskId: name, commandId: uuidv7(), checkpoint: checkpoint as never },
    handoff: { toAgentType: agentType, reason: "a new task" },
  });
}
