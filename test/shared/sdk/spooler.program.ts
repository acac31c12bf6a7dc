// A process that writes checkpoints of one task until it is killed, or so many; it prints each outcome once it has it.

import { type CheckpointInput, connect } from "../../../shared/sdk/sdk.ts";

const [url = "", spoolDir = "", taskId = "", count = "1000000"] = process.argv.slice(2);
const client = await connect({ url, spoolDir, agentId: "agent", env: {}, onWarning: () => {} });
const checkpoint: CheckpointInput = {
  metadata: { agent_type: "qa" },
  execution_state: { phase: "testing", goal: "x".repeat(500) },
};
for (let n = 0; n < Number(count); n += 1) {
  const { outcome, commandId } = await client.createCheckpoint({ taskId, checkpoint });
  process.stdout.write(`${outcome} ${commandId}\n`);
}
await client.close();
process.stdout.write("closed\n");
