// A process that writes checkpoints of one task until it is killed, or a given number. It prints the outcome or the error of each.

import { uuidv7 } from "uuidv7";
import { type CheckpointInput, connect, FleetError } from "../../../shared/sdk/sdk.ts";

const [url = "", spoolDir = "", taskId = "", count = "1000000"] = process.argv.slice(2);
const client = await connect({ url, spoolDir, agentId: "agent", env: {}, onWarning: () => {} });
const checkpoint: CheckpointInput = {
  metadata: { agent_type: "qa" },
  execution_state: { phase: "testing", goal: "x".repeat(500) },
};
for (let n = 0; n < Number(count); n += 1) {
  const commandId = uuidv7();
  const outcome = await client.createCheckpoint({ taskId, checkpoint, commandId }).then(
    (done) => done.outcome,
    (error: unknown) =>
      error instanceof FleetError ? `${error.code}/${error.details.reason}` : String(error),
  );
  process.stdout.write(`${outcome} ${commandId}\n`);
}
await client.close();
process.stdout.write("closed\n");
