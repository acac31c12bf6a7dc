// An agent as a process of its own: takes a task, then writes checkpoint after checkpoint under its fence, one line of JSON for each
// outcome, until it was refused as fenced a few times. It may be stopped and set going again in the middle.

import { connect, FleetError } from "../../../shared/sdk/sdk.ts";

const REFUSALS = 5;
const [url = "", agentId = "", taskId = ""] = process.argv.slice(2);
const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

// Straight to the writer or not at all: what waits in a queue is refused later, and elsewhere.
const fleet = await connect({ url, agentId, fallback: "none", onWarning: () => {} });
const task = await fleet.takeTask(taskId);
say({ fence: task.fence });
for (let step = 1, refused = 0; refused < REFUSALS; step += 1) {
  try {
    const outcome = await task.checkpoint({
      metadata: { agent_type: "qa" },
      execution_state: { phase: "testing", completed_items: [`step ${step}`] },
    });
    say({ committed: outcome.checkpointId });
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    if (error.code !== "FENCED" && !error.retryable) throw error;
    if (error.code === "FENCED") refused += 1;
    // What a loaded machine did not answer in time says nothing about who has the task.
    say(error.code === "FENCED" ? { refused: error.code } : { unanswered: error.code });
  }
}
await fleet.close();
