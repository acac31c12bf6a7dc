/** The fleet that the demo plays on: the one that runs, else one of its own. */
import { mkdirSync, openSync } from "node:fs";
import { join } from "node:path";
import { connect, type FleetClient } from "../../shared/sdk/sdk.ts";
import { startFleet } from "./process.ts";
import type { Timeline } from "./timeline.ts";

const START_MS = 60_000;

/** On a fleet of somebody's own: its runners and agents shall not take what the demo offers. */
const TENANT = "demo";

export interface DemoFleet {
  readonly client: FleetClient;
  readonly isOurs: boolean;
  /** With which the agents find the same fleet and tenant. */
  readonly env: NodeJS.ProcessEnv;
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
    return { client: already, isOurs: false, env: { ...env, FLEET_TENANT: tenant } };
  }
  mkdirSync(home, { recursive: true });
  const logPath = join(home, "demo.log");
  const begun = performance.now();
  const fleet = startFleet(env, openSync(logPath, "a"));
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
      await client.status({ deadlineMs: START_MS });
      timeline.say("fleet", `started at ${url}`, "good", performance.now() - begun);
      return { client, isOurs: true, env };
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the fleet ${ended ?? `did not start in ${START_MS / 1_000} s`}; see ${logPath}`);
}
