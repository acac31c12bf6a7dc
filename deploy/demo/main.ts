/**
 * `npm run demo`, in three parts. An agent is killed with SIGKILL at work, and another process continues exactly where it stopped. A task
 * that is larger than one context is handed over from agent to agent, and from one agent type to another. Three agents fail in different
 * ways, and the fleet detects the failures and recovers their tasks.
 * `-- --exit` stops everything at the end; the exit code is 0 if every check passed. `-- --running` never starts a fleet.
 */
import { discoverBus } from "../../shared/sdk/address.ts";
import { ensureFleet } from "./fleet.ts";
import { checkHandoff } from "./handoff/checks.ts";
import { runHandoff } from "./handoff/scenario.ts";
import { checkKill } from "./kill/checks.ts";
import { runKill } from "./kill/scenario.ts";
import { killAgents } from "./process.ts";
import { checkRecovery } from "./recovery/checks.ts";
import { runRecovery } from "./recovery/scenario.ts";
import { createTimeline } from "./timeline.ts";

const { env } = process;
const ownUrl = `nats://127.0.0.1:${env.FLEET_NATS_PORT ?? "4222"}`;
const USAGE = `usage: npm run demo [-- --exit] [--running]

  --exit     stop everything at the end; the exit code is 0 if every check passed
  --running  only with a fleet that is running: the one of FLEET_URL, else the one recorded in .fleet

Each part uses the fleet that is running, and starts one if there is none.
`;

const unknown = process.argv.slice(2).filter((argument) => argument !== "--exit" && argument !== "--running");
if (unknown.length > 0) {
  const isHelp = unknown.every((argument) => argument === "--help" || argument === "-h");
  (isHelp ? process.stdout : process.stderr).write(USAGE);
  process.exit(isHelp ? 0 : 64);
}
const stopsAtEnd = process.argv.includes("--exit");
const startsOne = !process.argv.includes("--running");
// A port of its own means a fleet of its own.
const url = env.FLEET_NATS_PORT !== undefined && env.FLEET_URL === undefined ? ownUrl : discoverBus(env).url;
const home = env.FLEET_HOME ?? ".fleet";
// The reader of the output may close it; the demo continues, and stops the processes that it started.
process.stdout.on("error", () => {});

const timeline = createTimeline((text) => process.stdout.write(text));

let stopFleet = async () => {};
/** Ends all agents, so that none is left behind, not even a frozen one. */
async function stopAll(): Promise<void> {
  killAgents();
  await stopFleet();
}
let isOver = false;
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void stopAll().then(() => process.exit(isOver ? 0 : 1)));
}

timeline.heading("Fleet demo");
let passed = false;
let isOurs = false;
try {
  const fleet = await ensureFleet(timeline, { url, ownUrl, home, env, startsOne }, (stop) => {
    stopFleet = stop;
  });
  ({ isOurs } = fleet);
  const { client } = fleet;
  passed = await checkKill(timeline, client, await runKill(timeline, client, fleet.env));
  passed = (await checkHandoff(timeline, client, await runHandoff(timeline, client, fleet.env))) && passed;
  passed = (await checkRecovery(timeline, client, await runRecovery(timeline, fleet))) && passed;
  await client.close();
} catch (error) {
  passed = false;
  timeline.print("✗", error instanceof Error ? error.message : String(error), "bad");
}

if (stopsAtEnd || !passed || !isOurs) {
  if (!isOurs) timeline.print("fleet", "the fleet that was running before stays up", "note");
  await stopAll();
  process.exit(passed ? 0 : 1);
}
isOver = true;
timeline.print("fleet", "the fleet stays up; try `npx fleet handoff list`. Ctrl-C stops it.", "note");
