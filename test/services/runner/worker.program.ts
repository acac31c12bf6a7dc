// An agent that a runner starts, with its task and fence in the environment. The prefix of the task id chooses its behaviour:
// `work` writes a checkpoint and ends, `stay` writes one and runs until SIGTERM, `refuse` ignores SIGTERM,
// `limit` reports a rate limit, `crash` fails at once.

import { appendFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { connect } from "../../../shared/sdk/sdk.ts";

const { env } = process;
const [behaviour = ""] = (env.FLEET_TASK ?? "").split("-");
const folder = dirname(env.FLEET_PROMPT_FILE ?? "");

/** One line for each start of this agent, which the tests count. */
appendFileSync(join(folder, "starts"), `${process.pid}\n`);

async function checkpoint(): Promise<void> {
  const fleet = await connect({ fallback: "none" });
  const task = fleet.task(env.FLEET_TASK ?? "", { fence: Number(env.FLEET_FENCE) });
  const { checkpointId } = await task.checkpoint({
    metadata: { agent_type: env.FLEET_AGENT_TYPE ?? "", parent_ids: [env.FLEET_CHECKPOINT ?? ""] },
    execution_state: { phase: "implementing", completed_items: ["first", "second"] },
  });
  await fleet.close();
  const prompt = readFileSync(env.FLEET_PROMPT_FILE ?? "", "utf8");
  writeFileSync(
    join(folder, "self-report.part"),
    JSON.stringify({ env, prompt, checkpointId, pid: process.pid }),
  );
  renameSync(join(folder, "self-report.part"), join(folder, "self-report.json"));
}

switch (behaviour) {
  case "crash":
    process.exit(1);
    break;
  case "limit":
    writeFileSync(
      env.FLEET_EXIT_FILE ?? "",
      JSON.stringify({
        class: "rate_limit",
        details: "the vendor fileOf 429",
        resets_at: "2030-01-01T00:00:00Z",
      }),
    );
    process.exit(1);
    break;
  case "refuse":
    process.on("SIGTERM", () => {});
    await checkpoint();
    setInterval(() => {}, 60_000);
    break;
  case "stay":
    await checkpoint();
    setInterval(() => {}, 60_000);
    break;
  default:
    await checkpoint();
}
