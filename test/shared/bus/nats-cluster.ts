/** A cluster of the bus whose servers a test starts, kills and starts again. */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { prepareServers } from "../../harness/clustered-servers.ts";
import { pauseProcess } from "../../harness/processes/pause.ts";

export interface NatsCluster {
  /** The address of one server. */
  url(index: number): string;
  /** Its monitoring address. */
  monitorUrl(index: number): string;
  /** The names of the clients of one server. */
  clientsOf(index: number): Promise<string[]>;
  /** `size`: how many servers the cluster has then, the first ones. */
  start(index: number, size: number, settings?: { readonly syncAlways: boolean }): void;
  /** Sends SIGKILL; resolves when the process has ended. */
  kill9(index: number): Promise<void>;
  /** Freezes the server until it is killed: it holds its connections and answers nothing. */
  pause(index: number): void;
  stop(): Promise<void>;
}

/** No server runs yet. */
export async function prepareCluster(size: number, storeBytes?: number): Promise<NatsCluster> {
  const folder = mkdtempSync(join(tmpdir(), "fleet-nats-cluster-"));
  const servers = await prepareServers(size, folder, storeBytes);
  const running = new Map<number, ChildProcess>();
  const cluster: NatsCluster = {
    url: (index) => servers[index]!.url,
    monitorUrl: (index) => servers[index]!.monitorUrl,
    async clientsOf(index) {
      const answer = await fetch(new URL("/connz", servers[index]!.monitorUrl));
      const { connections } = (await answer.json()) as { connections: { name?: string }[] };
      return connections.flatMap(({ name = [] }) => name);
    },
    start: (index, size, settings) => void running.set(index, servers[index]!.start(size, settings)),
    async kill9(index) {
      const server = running.get(index);
      running.delete(index);
      if (server === undefined || server.exitCode !== null) return;
      server.kill("SIGKILL");
      await once(server, "exit");
    },
    pause: (index) => pauseProcess(running.get(index)!.pid!),
    async stop() {
      await Promise.all([...running.keys()].map((index) => cluster.kill9(index)));
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return cluster;
}
