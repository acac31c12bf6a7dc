/** The fleet of the demo: the running one, otherwise one of its own. */
import { openSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { connect, type FleetClient } from "../../shared/sdk/sdk.ts";
import { openDemoHome } from "./home.ts";
import { startFleet } from "./process.ts";
import { AGENT_TYPE } from "./recovery/failed-task.ts";
import type { Timeline } from "./timeline.ts";

const START_MS = 60_000;

/** The tenant on a fleet that was running before, so that its runners and agents do not accept the demo's offers. */
const TENANT = "demo";
/** The tenant of the demo's own fleet. */
const DEFAULT_TENANT = "default";

export interface DemoFleet {
  readonly client: FleetClient;
  readonly isOurs: boolean;
  /** The environment with which the agents find the same fleet and tenant. */
  readonly env: NodeJS.ProcessEnv;
  /** The file of the embedded store; null if the store is not the demo's own, and must not be damaged. */
  readonly storeFile: string | null;
  /** The silence after which an agent of the third part counts as failed; null if the fleet has another policy. */
  readonly silenceMs: number | null;
}

/** Only for the agents of the third part, which send more heartbeats than usual, so that the demo stays short. */
const SILENCE_MS = 2_000;

/** The fleet's environment with a policy, unless it has one already. */
function withPolicy(env: NodeJS.ProcessEnv, home: string): Pick<DemoFleet, "env" | "silenceMs"> {
  if (env.FLEET_POLICY !== undefined) return { env, silenceMs: null };
  const path = resolve(home, "demo-policy.json");
  const agent_types = { [AGENT_TYPE]: { recovery: { silence_ms: SILENCE_MS } } };
  const policy = { tenants: { [env.FLEET_TENANT ?? DEFAULT_TENANT]: { agent_types } } };
  writeFileSync(path, JSON.stringify(policy));
  return { env: { ...env, FLEET_POLICY: path }, silenceMs: SILENCE_MS };
}

async function connectIfUp(url: string, tenant?: string): Promise<FleetClient | null> {
  const options = {
    url,
    agentId: "demo",
    role: "operator",
    connectTimeoutMs: 500,
    fallback: "none",
  } as const;
  try {
    return await connect({ ...options, ...(tenant !== undefined && { tenant }) });
  } catch {
    return null;
  }
}

export interface DemoPlace {
  /** The address of a fleet that may be running. */
  readonly url: string;
  /** The address of a fleet that the demo starts. */
  readonly ownUrl: string;
  readonly home: string;
  readonly env: NodeJS.ProcessEnv;
  /** False: the demo needs a running fleet. */
  readonly startsOne: boolean;
}

/** Calls `onStarted` with the function that stops the fleet, as soon as a fleet is starting. */
export async function ensureFleet(
  timeline: Timeline,
  { url, ownUrl, home, env, startsOne }: DemoPlace,
  onStarted: (stop: () => Promise<void>) => void,
): Promise<DemoFleet> {
  const tenant = env.FLEET_TENANT ?? TENANT;
  const already = await connectIfUp(url, tenant);
  if (already) {
    timeline.print("fleet", `the demo uses the running fleet at ${url}, as tenant ${tenant}`);
    const theirEnv = { ...env, FLEET_URL: url, FLEET_TENANT: tenant };
    return { client: already, isOurs: false, env: theirEnv, storeFile: null, silenceMs: null };
  }
  if (!startsOne) throw new Error(`no fleet answers at ${url}; start one, or name its address in FLEET_URL`);
  const logPath = openDemoHome(home);
  const begun = performance.now();
  // Without the file mirror: the third part damages a checkpoint to show how a task continues without it.
  // With the full path of the home: the fleet and the agents work in the folder of the project, which may not be that of the demo.
  const place = { FLEET_HOME: resolve(home), FLEET_URL: ownUrl };
  const own = withPolicy({ FLEET_MIRROR_DIR: "off", ...env, ...place }, home);
  const fleet = startFleet(own.env, openSync(logPath, "a"));
  onStarted(async () => {
    fleet.child.kill("SIGTERM");
    await fleet.ended;
  });
  let ended: string | undefined;
  void fleet.ended.then((how) => {
    ended = `ended with ${how}`;
  });
  while (performance.now() - begun < START_MS && ended === undefined) {
    const client = await connectIfUp(ownUrl);
    if (client) {
      await client.admin.status({ deadlineMs: START_MS });
      timeline.print("fleet", `started at ${ownUrl}`, "good", performance.now() - begun);
      const storeFile = env.FLEET_STORE === undefined ? join(home, "store", "data.mdb") : null;
      return { client, isOurs: true, storeFile, ...own };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the fleet ${ended ?? `did not start in ${START_MS / 1_000} s`}; see ${logPath}`);
}
