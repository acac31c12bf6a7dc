// Makes a spooled command.

import { uuidv7 } from "uuidv7";
import type { SpooledCommand } from "../../../shared/sdk/spool/line.ts";

export function spooled(taskId: string, own: Partial<SpooledCommand> = {}): SpooledCommand {
  const commandId = own.commandId ?? uuidv7();
  const request = {
    command_id: commandId,
    checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
  };
  return {
    tenant: "default",
    agentId: "agent",
    taskId,
    op: "create",
    commandId,
    at: Date.now(),
    sent: false,
    body: Buffer.from(JSON.stringify(request)),
    ...own,
  };
}
