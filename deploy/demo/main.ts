/**
 * `npm run demo`: the main job, for real. An agent process works through a task and checkpoints; it is killed with SIGKILL; a second
 * process, which shares nothing with it but the task's name, goes on exactly where it stopped; history, chain and audit trail
 * are verified. `-- --exit` stops everything at the end; the exit code says whether all of it held.
 */
import { mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { connect, type FleetClient } from "../../shared/sdk/sdk.ts";
import { startAgent, startFleet } from "./process.ts";
import { checkEverything, type Story, tellStory } from "./story.ts";
import { createTimeline } from "./timeline.ts";

const home = process.env.FLEET_HOME ?? ".fleet";
const url = process.env.FLEET_URL ?? `nats://127.0.0.1:${process.env.FLEET_NATS_PORT ?? "4222"}`;
const env = { ...process.env, FLEET_URL: url };
const USAGE =
  "usage: npm run demo [-- --exit]\n\n  --exit   stop everything at the end; the exit code says whether all of it held\n";
const KILL_AFTER = 4;
const START_MS = 60_000;

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

async function running(): Promise<FleetClient | null> {
  try {
    return await connect({ url, agentId: "demo", connectTimeoutMs: 500, fallback: "none" });
  } catch {
    return null;
  }
}

async function ensureFleet() {
  const already = await running();
  if (already) {
    timeline.say("fleet", `uses the one that runs at ${url}`);
    return { client: already, isOurs: false, stop: async () => {} };
  }
  mkdirSync(home, { recursive: true });
  const logPath = join(home, "demo.log");
  const begun = performance.now();
  const fleet = startFleet(env, openSync(logPath, "a"));
  let ended: unknown;
  void fleet.ended.then((how) => {
    ended = how ?? "?";
  });
  while (performance.now() - begun < START_MS && ended === undefined) {
    const client = await running();
    if (client) {
      await client.status({ deadlineMs: START_MS });
      timeline.say("fleet", `started at ${url}`, "good", performance.now() - begun);
      const stop = async () => {
        fleet.child.kill("SIGTERM");
        await fleet.ended;
      };
      return { client, isOurs: true, stop };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the fleet did not start; see ${logPath}`);
}

async function play(client: FleetClient): Promise<Story> {
  const taskId = `survey-${Date.now().toString(36)}`;
  const story: Story = { taskId, said: [], events: [], killedAt: null };
  await client.onEvent((event) => story.events.push(event), { taskId });

  timeline.heading(`Task ${taskId}: survey the code of this repository`);
  const first = startAgent([taskId, "surveyor-a"], env, (said) => {
    tellStory(timeline, story, said);
    if (
      said.did === "working" &&
      story.said.filter(({ did }) => did === "checkpoint").length === KILL_AFTER
    ) {
      story.killedAt = String(said.item);
      first.child.kill("SIGKILL");
    }
  });
  timeline.say("demo", `surveyor-a ended: ${await first.ended}, while working on ${story.killedAt}`, "bad");
  const second = startAgent([taskId, "surveyor-b"], env, (said) => tellStory(timeline, story, said));
  const how = await second.ended;
  timeline.say("demo", `surveyor-b ended: exit code ${how}`, how === 0 ? "good" : "bad");
  return story;
}

timeline.heading("Fleet demo");
const fleet = await ensureFleet();
let held = false;
try {
  const story = await play(fleet.client);
  held = await checkEverything(timeline, fleet.client, story);
  await fleet.client.close();
} catch (error) {
  await fleet.stop();
  throw error;
}

if (leave || !held || !fleet.isOurs) {
  if (!fleet.isOurs) timeline.say("fleet", "was running before and goes on", "note");
  await fleet.stop();
  process.exit(held ? 0 : 1);
}
timeline.say("fleet", "stays up; look around with `npx fleet checkpoints list`. Ctrl-C stops it.", "note");
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => void fleet.stop().then(() => process.exit(0)));
}
