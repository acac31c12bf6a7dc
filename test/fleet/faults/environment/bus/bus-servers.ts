/** The bus under test: one server as the standalone fleet starts it, or the servers of one cluster, each with its own faults. */
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { credsAuthenticator, type NodeConnectionOptions } from "@nats-io/transport-node";
import { findNatsServer } from "../../../../../deploy/local/nats-binary.mjs";
import { type NatsServer, startNatsServer } from "../../../../../services/standalone/nats/server.ts";
import type { BusCredentials } from "../../../../../shared/bus/connection.ts";
import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import { createLogger } from "../../../../../shared/runtime/observability/log.ts";
import {
  CLUSTER_STORE_BYTES,
  type ClusterServer,
  prepareServers,
} from "../../../../harness/clustered-servers.ts";
import { freePort } from "../../../../harness/free-port.ts";
import { whenThisProcessEnds } from "../../../../harness/processes/orphan-guard.ts";
import { projectRoot } from "../../../../harness/project-root.ts";
import type { RoundAccess } from "../../upgrade/access.ts";
import { type RunningServer, SupervisedNats } from "./supervised-nats.ts";

const log = createLogger({ service: "faults", level: "silent" });
const START_MS = 60_000;
const STOP_MS = 10_000;
const POLL_MS = 50;
const ANSWER_MS = 1_000;

/**
 * Starts the servers, with all their files in `dir`. Resolves when they serve streams. `access`: one server with the configuration of an
 * administrator, which refuses connections without credentials and gives the streams their whole sizes.
 */
export async function superviseBus(
  dir: string,
  { size, access }: { readonly size: number; readonly access: RoundAccess | undefined },
): Promise<BusServers> {
  mkdirSync(dir, { recursive: true });
  if (access !== undefined)
    return superviseAll([await guardedServer(dir, access)], dir, access.administrator);
  return size === 1 ? superviseServer(dir) : superviseAll(await prepareServers(size, dir), dir);
}

/** A server as an administrator starts it. */
async function guardedServer(dir: string, { files }: RoundAccess): Promise<ClusterServer> {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  const [port, monitor] = [await freePort(), await freePort()];
  const args = ["-c", join(files, "nats.conf"), "-a", "127.0.0.1", "-p", String(port), "-m", String(monitor)];
  return {
    ...{ name: "nats", port, url: `nats://127.0.0.1:${port}`, monitorUrl: `http://127.0.0.1:${monitor}` },
    // The folder of the streams in the configuration is relative to it.
    start: () => spawn(found.path, args, { cwd: dir, stdio: "ignore" }),
  };
}

async function superviseServer(dir: string): Promise<BusServers> {
  const start = (port: number): Promise<NatsServer> =>
    startNatsServer({
      ...{ root: projectRoot, env: process.env, dir, log, port },
      maxPayloadBytes: LIMITS.message_bytes_max,
    });
  const server = await start(-1);
  const restart = () => start(server.port);
  return new BusServers([new SupervisedNats(server, { name: "nats", dir, restart })]);
}

async function superviseAll(
  prepared: readonly ClusterServer[],
  dir: string,
  credentials?: string,
): Promise<BusServers> {
  const size = prepared.length;
  const servers = prepared.map((one) => {
    const restart = async () => startClustered(one, size);
    return new SupervisedNats(startClustered(one, size), { name: one.name, dir, restart });
  });
  const bus = new BusServers(servers, credentials);
  if (await bus.settled(START_MS)) return bus;
  bus.destroy();
  throw new Error("the servers of the bus did not start");
}

function startClustered(one: ClusterServer, size: number): RunningServer {
  const child = one.start(size);
  const guard = whenThisProcessEnds('kill -KILL "$1"', String(child.pid));
  const exited = new Promise<void>((resolve) => {
    child.once("exit", () => {
      guard.dismiss();
      resolve();
    });
  });
  const { url, port, monitorUrl } = one;
  return {
    ...{ url, port, monitorUrl, exited },
    storeBytesMax: CLUSTER_STORE_BYTES,
    kill: (signal) => void child.kill(signal),
    async stop() {
      child.kill("SIGTERM");
      const deadline = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await exited;
      clearTimeout(deadline);
    },
  };
}

interface StreamDetails {
  readonly account_details?: readonly {
    readonly stream_detail?: readonly { readonly cluster?: { readonly leader?: string } }[];
  }[];
}

export class BusServers {
  readonly all: readonly SupervisedNats[];

  readonly #credentials: string | undefined;

  /** `credentials`: the content of a credentials file without restrictions. */
  constructor(all: readonly SupervisedNats[], credentials?: string) {
    this.all = all;
    this.#credentials = credentials;
  }

  /** With which a part of the round without restrictions connects. */
  get credentials(): { readonly credentials?: BusCredentials } {
    return this.#credentials === undefined ? {} : { credentials: { creds: this.#credentials } };
  }

  /** The same for the client library itself. */
  get connectionOptions(): NodeConnectionOptions {
    const creds = this.#credentials;
    return {
      servers: this.url.split(","),
      ...(creds !== undefined && { authenticator: credsAuthenticator(Buffer.from(creds)) }),
    };
  }

  /** The addresses of the servers, separated by commas. */
  get url(): string {
    return this.all.map(({ url }) => url).join();
  }

  get isCluster(): boolean {
    return this.all.length > 1;
  }

  get storeBytesMax(): number {
    return this.all[0]!.storeBytesMax;
  }

  /** The starts after the first ones, and the ends without a kill. */
  get restarts(): { readonly starts: number; readonly own: number } {
    return {
      starts: this.all.reduce((sum, { starts }) => sum + starts - 1, 0),
      own: this.all.reduce((sum, { ownEndings }) => sum + ownEndings, 0),
    };
  }

  named(name: string): SupervisedNats {
    return this.all.find((one) => one.name === name)!;
  }

  /** A server that leads a stream; `chance` from 0 to 1 chooses the stream. Any server while none is known. */
  async leader(chance: number): Promise<SupervisedNats> {
    for (const { monitorUrl } of this.all) {
      const leaders = await leadersOf(monitorUrl).catch(() => []);
      const name = leaders[Math.floor(chance * leaders.length)];
      const leader = this.all.find((one) => one.name === name);
      if (leader !== undefined) return leader;
    }
    return this.all[Math.floor(chance * this.all.length)]!;
  }

  resume(): void {
    for (const one of this.all) one.resume();
  }

  /** Resolves with true when every server runs and has all messages of its streams. */
  async settled(timeoutMs: number): Promise<boolean> {
    for (const end = performance.now() + timeoutMs; performance.now() < end; await sleep(POLL_MS)) {
      const healthy = await Promise.all(this.all.map((one) => one.isHealthy()));
      if (healthy.every(Boolean)) return true;
    }
    return false;
  }

  async stop(): Promise<void> {
    await Promise.all(this.all.map((one) => one.stop()));
  }

  /** Kills all servers at once, at the end of the program. */
  destroy(): void {
    for (const one of this.all) {
      one.resume();
      one.kill(0);
    }
  }
}

/** The names of the servers that lead a stream, by stream. */
async function leadersOf(monitorUrl: string): Promise<string[]> {
  const url = new URL("/jsz?accounts=true&streams=true", monitorUrl);
  const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS) });
  const { account_details: accounts = [] } = (await answer.json()) as StreamDetails;
  return accounts.flatMap(({ stream_detail: streams = [] }) =>
    streams.flatMap(({ cluster }) => (cluster?.leader === undefined ? [] : [cluster.leader])),
  );
}
