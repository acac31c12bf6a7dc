/**
 * `npm run demo`: the main job, for real, in three acts. An agent is killed with SIGKILL at its work, and another process goes on exactly
 * where it stopped; then a task that is more than one context holds goes from agent to agent, and from one type of agent to another; then three
 * agents fail, each in a way of its own, and the fleet notices and has their tasks go on.
 * `-- --exit` stops everything at the end; the exit code says whether all of it held.
 */
import { ensureFleet } from "./fleet.ts";
import { checkHandoff } from "./handoff/checks.ts";
import { playHandoff } from "./handoff/play.ts";
import { checkKill } from "./kill/checks.ts";
import { playKill } from "./kill/play.ts";
import { killAgents } from "./process.ts";
import { checkRecovery } from "./recovery/checks.ts";
import { playRecovery } from "./recovery/play.ts";
import { createTimeline } from "./timeline.ts";

const home = process.env.FLEET_HOME ?? ".fleet";
const url = process.env.FLEET_URL ?? `nats://127.0.0.1:${process.env.FLEET_NATS_PORT ?? "4222"}`;
const env = { ...process.env, FLEET_URL: url };
const USAGE =
  "usage: npm run demo [-- --exit]\n\n  --exit   stop everything at the end; the exit code says whether all of it held\n";

const unknown = process.argv.slice(2).filter((argument) => argument !== "--exit");
if (unknown.length > 0) {
  const isHelp = unknown.every((argument) => argument === "--help" || argument === "-h");
  (isHelp ? process.stdout : process.stderr).write(USAGE);
  process.exit(isHelp ? 0 : 64);
}
const leave = process.argv.includes("--exit");
// Whoever reads along may stop reading; the demo goes on and stops what it started.
process.stdout.on("error", () => {});

const timeline = createTimeline((text) => process.stdout.write(text));

let stopFleet = async () => {};
/** Whatever happens, no agent stays behind, least of all a frozen one. */
async function stopAll(): Promise<void> {
  killAgents();
  await stopFleet();
}
let isOver = false;
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void stopAll().then(() => process.exit(isOver ? 0 : 1)));
}

timeline.heading("Fleet demo");
let held = false;
let isOurs = false;
try {
  const fleet = await ensureFleet(timeline, { url, home, env }, (stop) => {
    stopFleet = stop;
  });
  ({ isOurs } = fleet);
  const { client } = fleet;
  held = await checkKill(timeline, client, await playKill(timeline, client, fleet.env));
  held = (await checkHandoff(timeline, client, await playHandoff(timeline, client, fleet.env))) && held;
  held = (await checkRecovery(timeline, client, await playRecovery(timeline, fleet))) && held;
  await client.close();
} catch (error) {
  held = false;
  timeline.say("✗", error instanceof Error ? error.message : String(error), "bad");
}

if (leave || !held || !isOurs) {
  if (!isOurs) timeline.say("fleet", "was running before and goes on", "note");
  await stopAll();
  process.exit(held ? 0 : 1);
}
isOver = true;
timeline.say("fleet", "stays up; look around with `npx fleet handoffs list`. Ctrl-C stops it.", "note");
