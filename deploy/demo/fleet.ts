/** The fleet that the demo plays on: the one that runs, else one of its own. */
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { connect, type FleetClient } from "../../shared/sdk/sdk.ts";
import { startFleet } from "./process.ts";
import { AGENT_TYPE } from "./recovery/cast.ts";
import type { Timeline } from "./timeline.ts";

const START_MS = 60_000;

/** On a fleet of somebody's own: its runners and agents shall not take what the demo offers. */
const TENANT = "demo";
/** Whose agents they are where nobody says it. */
const DEFAULT_TENANT = "default";

export interface DemoFleet {
  readonly client: FleetClient;
  readonly isOurs: boolean;
  /** With which the agents find the same fleet and tenant. */
  readonly env: NodeJS.ProcessEnv;
  /** Of the embedded store, where it is the demo's own; null: keep your hands off. */
  readonly storeFile: string | null;
  /** After how long without a sign of life an agent of the third act is taken for dead; null: not known here. */
  readonly silenceMs: number | null;
}

/** For the agents of the third act alone, which beat more often than others; so nobody who looks on has to wait long. */
const SILENCE_MS = 2_000;

/** The fleet's environment with a policy in it, unless it has one already. */
function withPolicy(env: NodeJS.ProcessEnv, home: string): Pick<DemoFleet, "env" | "silenceMs"> {
  if (env.FLEET_POLICY !== undefined) return { env, silenceMs: null };
  const path = resolve(home, "demo-policy.json");
  const agent_types = { [AGENT_TYPE]: { recovery: { silence_ms: SILENCE_MS } } };
  const policy = { tenants: { [env.FLEET_TENANT ?? DEFAULT_TENANT]: { agent_types } } };
  writeFileSync(path, JSON.stringify(policy));
  return { env: { ...env, FLEET_POLICY: path }, silenceMs: SILENCE_MS };
}

async function running(url: string, tenant?: string): Promise<FleetClient | null> {
  const options = { url, agentId: "demo", connectTimeoutMs: 500, fallback: "none" } as const;
  try {
    return await connect({ ...options, ...(tenant !== undefined && { tenant }) });
  } catch {
    return null;
  }
}

/** `onStarted` is told how to stop the fleet as soon as there is one to stop. */
export async function ensureFleet(
  timeline: Timeline,
  { url, home, env }: { url: string; home: string; env: NodeJS.ProcessEnv },
  onStarted: (stop: () => Promise<void>) => void,
): Promise<DemoFleet> {
  const tenant = env.FLEET_TENANT ?? TENANT;
  const already = await running(url, tenant);
  if (already) {
    timeline.say("fleet", `uses the one that runs at ${url}, as tenant ${tenant}`);
    const theirs = { isOurs: false, env: { ...env, FLEET_TENANT: tenant }, storeFile: null, silenceMs: null };
    return { client: already, ...theirs };
  }
  mkdirSync(home, { recursive: true });
  const logPath = join(home, "demo.log");
  const begun = performance.now();
  const own = withPolicy(env, home);
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
    const client = await running(url);
    if (client) {
      await client.admin.status({ deadlineMs: START_MS });
      timeline.say("fleet", `started at ${url}`, "good", performance.now() - begun);
      const storeFile = env.FLEET_STORE === undefined ? join(home, "store", "data.mdb") : null;
      return { client, isOurs: true, storeFile, ...own };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the fleet ${ended ?? `did not start in ${START_MS / 1_000} s`}; see ${logPath}`);
}
