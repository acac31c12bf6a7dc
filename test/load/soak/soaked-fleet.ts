// The fleet of a soak: a standalone fleet, or its services as processes of their own. Retention removes checkpoints all the time, drafts are
// finalized soon, and the streams are small enough to be full after some minutes: a stream that is still filling says nothing.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startNatsServer } from "../../../services/standalone/nats/server.ts";
import { apiKeysFolder, createApiKey } from "../../../shared/bus/api-keys.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { environmentOf, type Role, startService } from "../../harness/processes/services.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { startMeasuredFleet, storePath } from "../programs/fleet.ts";
import { monitorUrlIn } from "./sizes/bus-sizes.ts";

export interface SoakedFleet {
  readonly home: string;
  readonly busUrl: string;
  readonly gatewayUrl: string;
  /** Of a person with the rights of an operator. */
  readonly apiKey: string;
  readonly monitorUrl: string;
  readonly storePath: string;
  /** Its processes, by name. */
  readonly pids: Readonly<Record<string, number>>;
  stop(): Promise<void>;
}

const MIB = 1024 * 1024;
/** The room for all streams. The one of events takes a quarter. */
const STREAM_BYTES = 12 * MIB;
/** On a busy machine a start takes long. */
const START_MS = 240_000;
const POLICY = {
  defaults: {
    retention: { max: 20, keep: 3, days: 1, completed_days: 1 },
    recovery: { window_attempts: 1_000 },
  },
  access_log_days: 1,
};
const ROLES = ["writer", "reader", "coordinator", "watchdog", "gateway"] as const satisfies readonly Role[];

function settingsIn(home: string): Record<string, string> {
  const policy = join(home, "policy.json");
  writeFileSync(policy, JSON.stringify(POLICY));
  return {
    FLEET_POLICY: policy,
    FLEET_RETENTION_EVERY: "15s",
    FLEET_FINALIZE_DRAFTS_AFTER: "30s",
    FLEET_GATEWAY_PORT: "-1",
  };
}

export function startSoakedFleet(home: string, asServices: boolean): Promise<SoakedFleet> {
  return asServices ? startSeparate(home) : startStandalone(home);
}

async function startStandalone(home: string): Promise<SoakedFleet> {
  const natsFolder = join(home, "nats");
  mkdirSync(natsFolder);
  // A fleet keeps the limit of its first start.
  writeFileSync(join(natsFolder, "nats.conf"), `max_file_store: ${STREAM_BYTES}\n`);
  const settings = { ...settingsIn(home), FLEET_AUTH: "on", FLEET_LOG_LEVEL: "warn" };
  const fleet = await startMeasuredFleet({
    home,
    storeUrl: null,
    profile: null,
    settings,
    startMs: START_MS,
  });
  const { gatewayUrl } = JSON.parse(readFileSync(join(home, "addresses.json"), "utf8")) as {
    gatewayUrl: string;
  };
  return {
    home,
    busUrl: fleet.busUrl,
    gatewayUrl,
    apiKey: readFileSync(join(home, "client", "api-key"), "utf8").trim(),
    monitorUrl: monitorUrlIn(natsFolder),
    storePath: storePath(home),
    pids: { fleet: fleet.pid, ...(fleet.natsServerPid !== null && { "nats-server": fleet.natsServerPid }) },
    stop: () => fleet.stop(),
  };
}

async function startSeparate(home: string): Promise<SoakedFleet> {
  const log = createLogger({ service: "soak", level: "silent" });
  const dir = join(home, "nats");
  const nats = await startNatsServer({ root: projectRoot, env: process.env, dir, port: -1, log });
  const stops = [() => nats.stop()];
  const stop = async () => {
    for (const one of stops.toReversed()) await one();
  };
  try {
    const env = {
      ...environmentOf({ busUrl: nats.url, storeUrl: `lmdb:${storePath(home)}?shared` }),
      ...settingsIn(home),
      FLEET_HOME: home,
    };
    const services = await Promise.all(ROLES.map((role) => startService(role, env)));
    stops.push(async () => void (await Promise.all(services.map((one) => one.terminate()))));
    const gateway = services.find(({ role }) => role === "gateway")!;
    const gatewayUrl = /"url":"(http:[^"]+)"/.exec(gateway.output())?.[1];
    if (gatewayUrl === undefined) throw new Error(`the gateway names no address:\n${gateway.output()}`);
    return {
      home,
      busUrl: nats.url,
      gatewayUrl,
      apiKey: keyIn(home),
      monitorUrl: nats.monitorUrl,
      storePath: storePath(home),
      pids: {
        ...Object.fromEntries(services.map(({ role, pid }) => [role, pid])),
        "nats-server": nats.pid,
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The bus of separate services has no credentials here, so the key needs none. */
function keyIn(home: string): string {
  const { key } = createApiKey(apiKeysFolder(home, {}), {
    tenant: "default",
    name: "soak",
    role: "operator",
    scopes: null,
    grant: null,
    account: null,
    credentials: null,
    expiresAt: null,
    now: new Date(),
  });
  return key;
}
