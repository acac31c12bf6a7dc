// An agent in a separate process: it takes a task and writes checkpoints under its fence until several were refused as fenced, with
// one line of JSON for each outcome. A test may stop it and let it continue.

import { connect, FleetError } from "../../../shared/sdk/sdk.ts";

const REFUSALS = 5;
const [url = "", agentId = "", taskId = ""] = process.argv.slice(2);
const print = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

// No queue: a queued command would be refused later, without an answer to this agent.
const fleet = await connect({ url, agentId, fallback: "none", onWarning: () => {} });
const task = await fleet.takeTask(taskId);
print({ fence: task.fence });
for (let step = 1, refused = 0; refused < REFUSALS; step += 1) {
  try {
    const outcome = await task.checkpoint({
      metadata: { agent_type: "qa" },
      execution_state: { phase: "testing", completed_items: [`step ${step}`] },
    });
    print({ committed: outcome.checkpointId });
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    if (error.code !== "FENCED" && !error.retryable) throw error;
    if (error.code === "FENCED") refused += 1;
    // On a loaded machine an answer may be late, which does not show who owns the task.
    print(error.code === "FENCED" ? { refused: error.code } : { unanswered: error.code });
  }
}
await fleet.close();
