/** A real standalone fleet in a separate process, on free ports and in its own folder; it can be killed and restarted. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import { type ConnectOptions, connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { projectRoot } from "../project-root.ts";

interface Addresses {
  readonly busUrl: string;
  readonly opsUrl: string;
  readonly gatewayUrl: string;
  readonly pid: number;
}

export interface TestFleet {
  readonly home: string;
  /** The URL of the bus, unchanged by a restart, so that clients reconnect. */
  readonly url: string;
  opsUrl(): string;
  gatewayUrl(): string;
  pid(): number;
  client(agentId?: string, tenant?: string, options?: ConnectOptions): Promise<FleetClient>;
  /** Sends SIGKILL to the fleet; resolves when the process has ended. */
  kill9(): Promise<void>;
  /** Sends SIGKILL to the fleet's nats-server, which a running fleet restarts; resolves at once. */
  killNats(): Promise<void>;
  /** Sends SIGTERM; resolves with the exit code. */
  terminate(): Promise<number | null>;
  /** Resolves with the exit code of the running process when it ends by itself. */
  ended(): Promise<number | null>;
  /** Starts the process again with the same folder and bus port. */
  start(): Promise<void>;
  /** The text that the process has written so far. */
  output(): string;
  stop(): Promise<void>;
}

const READY_MS = 100_000;

/**
 * Resolves when the fleet has committed its first command: a cold fleet on a busy machine answers late, and then a client queues
 * its command.
 * `home`: the folder of its data. Default: a new one. `port`: that of its bus. Default: a free one. `cold`: no first command.
 */
export async function startFleet(
  env: Record<string, string> = {},
  { cold = false, ...at }: { readonly home?: string; readonly port?: string; readonly cold?: boolean } = {},
): Promise<TestFleet> {
  const fleet = await startColdFleet(env, at);
  if (!cold) await warmUp(fleet);
  return fleet;
}

async function startColdFleet(
  env: Record<string, string>,
  at: { readonly home?: string; readonly port?: string },
): Promise<TestFleet> {
  const home = at.home ?? mkdtempSync(join(tmpdir(), "fleet-test-"));
  const clients: FleetClient[] = [];
  let port = at.port ?? "-1";
  let output = "";
  let running: { child: ChildProcess; addresses: Addresses } | undefined;

  async function start(): Promise<void> {
    const child = launch({ FLEET_HOME: home, FLEET_NATS_PORT: port, FLEET_OPS_PORT: "0", ...env }, (text) => {
      output += text;
    });
    const addresses = await ready(child);
    port = new URL(addresses.busUrl).port;
    running = { child, addresses };
  }

  async function ready(child: ChildProcess): Promise<Addresses> {
    const deadline = performance.now() + READY_MS;
    while (performance.now() < deadline && child.exitCode === null) {
      const addresses = readAddresses(home);
      if (addresses?.pid === child.pid) return addresses as Addresses;
      await sleep(20);
    }
    child.kill("SIGKILL");
    throw new Error(`the fleet did not start:\n${output}`);
  }

  async function end(signal: NodeJS.Signals): Promise<number | null> {
    const child = running?.child;
    running = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null;
    child.kill(signal);
    const [code] = (await once(child, "exit")) as [number | null];
    return code;
  }

  await start();
  const url = running!.addresses.busUrl;
  const own = ownOptions(home, url);
  return {
    home,
    url,
    opsUrl: () => running?.addresses.opsUrl ?? "",
    gatewayUrl: () => running?.addresses.gatewayUrl ?? "",
    pid: () => running?.addresses.pid ?? 0,
    async client(agentId = "tester", tenant = "default", options = {}) {
      clients.push(await connect({ ...own, agentId, tenant, ...options }));
      return clients.at(-1) as FleetClient;
    },
    async ended() {
      if (running === undefined) throw new Error("the fleet does not run");
      const [code] = (await once(running.child, "exit")) as [number | null];
      running = undefined;
      return code;
    },
    kill9: async () => void (await end("SIGKILL")),
    killNats: async () => void process.kill(natsPid(home), "SIGKILL"),
    terminate: () => end("SIGTERM"),
    output: () => output,
    start,
    async stop() {
      await Promise.all(clients.map((one) => one.close()));
      await end("SIGTERM");
      rmSync(home, { recursive: true, force: true });
    },
  };
}

async function warmUp(fleet: TestFleet): Promise<void> {
  const client = await fleet.client("tester", "warm-up");
  const checkpoint = {
    metadata: { agent_type: "qa" },
    execution_state: { phase: "testing" as const },
  };
  // One id: on a busy machine the first command is queued, and each repetition would be another checkpoint.
  const command = { taskId: "warm-up", checkpoint, commandId: uuidv7() };
  let outcome: string;
  do ({ outcome } = await client.createCheckpoint(command));
  while (outcome !== "committed");
}

/** The options of a client of the user who runs the fleet: it finds the fleet's keys in the home. */
const ownOptions = (home: string, url: string) =>
  ({
    role: "operator",
    env: { ...process.env, FLEET_HOME: home },
    url,
    spoolDir: join(home, "spool"),
    onWarning: () => {},
  }) as const;

function launch(env: Record<string, string>, onOutput: (text: string) => void): ChildProcess {
  const child = spawn(process.execPath, ["services/standalone/main.ts"], {
    cwd: projectRoot,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => onOutput(chunk.toString()));
  return child;
}

function natsPid(home: string): number {
  return (JSON.parse(readFileSync(join(home, "nats", "server.json"), "utf8")) as { pid: number }).pid;
}

function readAddresses(home: string): Addresses | undefined {
  try {
    return JSON.parse(readFileSync(join(home, "addresses.json"), "utf8")) as Addresses;
  } catch {
    return undefined;
  }
}
