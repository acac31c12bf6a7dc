/** Real servers of one cluster of the bus, without credentials. Each can be started later, killed and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { freePort } from "../../harness/free-port.ts";
import { projectRoot } from "../../harness/project-root.ts";

export interface NatsCluster {
  /** The address of one server. */
  url(index: number): string;
  /** `size`: how many servers the cluster has then, the first ones. */
  start(index: number, size: number): void;
  /** Sends SIGKILL; resolves when the process has ended. */
  kill9(index: number): Promise<void>;
  stop(): Promise<void>;
}

/** No server runs yet. */
export async function prepareCluster(size: number): Promise<NatsCluster> {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  const folder = mkdtempSync(join(tmpdir(), "fleet-nats-cluster-"));
  const ports = await Promise.all(
    Array.from({ length: size }, async () => ({ client: await freePort(), route: await freePort() })),
  );
  const servers = new Map<number, ChildProcess>();
  const cluster: NatsCluster = {
    url: (index) => `nats://127.0.0.1:${ports[index]!.client}`,
    start(index, size) {
      const known = ports.slice(0, size).map(({ route }) => `"nats://127.0.0.1:${route}"`);
      const own = ports[index]!;
      const dir = join(folder, `server-${index}`);
      mkdirSync(dir, { recursive: true });
      const conf = [
        `server_name: "server-${index}"`,
        `listen: "127.0.0.1:${own.client}"`,
        `max_payload: 2000000`,
        `jetstream { store_dir: "${dir}", max_file_store: 4GB, sync_interval: always }`,
        `cluster { name: "test", listen: "127.0.0.1:${own.route}", routes: [${known.join(", ")}] }`,
      ];
      const path = join(dir, "nats.conf");
      writeFileSync(path, `${conf.join("\n")}\n`);
      const stdio = process.env.FLEET_TEST_LOG ? "inherit" : "ignore";
      servers.set(index, spawn(found.path, ["-c", path], { stdio }));
    },
    async kill9(index) {
      const server = servers.get(index);
      servers.delete(index);
      if (server === undefined || server.exitCode !== null) return;
      server.kill("SIGKILL");
      await once(server, "exit");
    },
    async stop() {
      await Promise.all([...servers.keys()].map((index) => cluster.kill9(index)));
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return cluster;
}
