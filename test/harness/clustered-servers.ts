/** Real servers of one cluster of the bus, without credentials. Each can be started later, killed, frozen and started again. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findNatsServer } from "../../deploy/local/nats-binary.mjs";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { freePort } from "./free-port.ts";
import { projectRoot } from "./project-root.ts";

export interface ClusterServer {
  /** `server-0` and so on, the name under which the cluster knows it. */
  readonly name: string;
  readonly port: number;
  readonly url: string;
  readonly monitorUrl: string;
  /**
   * Starts the process, which is not ready yet. `size`: how many servers the cluster has then, the first ones. `syncAlways` false: it
   * acknowledges before it syncs to disk.
   */
  start(size: number, settings?: { readonly syncAlways: boolean }): ChildProcess;
}

/** The limit of the streams of each server. */
export const CLUSTER_STORE_BYTES = 4_000_000_000;

interface Ports {
  readonly client: number;
  readonly route: number;
  readonly monitor: number;
}

/** Chooses the ports and folders of `size` servers. No server runs yet. `storeBytes`: services alone create streams of full size. */
export async function prepareServers(
  size: number,
  folder: string,
  storeBytes = CLUSTER_STORE_BYTES,
): Promise<readonly ClusterServer[]> {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  const ports = await Promise.all(
    Array.from(
      { length: size },
      async (): Promise<Ports> => ({
        client: await freePort(),
        route: await freePort(),
        monitor: await freePort(),
      }),
    ),
  );
  return ports.map((own, index) => {
    const name = `server-${index}`;
    const dir = join(folder, name);
    return {
      name,
      port: own.client,
      url: `nats://127.0.0.1:${own.client}`,
      monitorUrl: `http://127.0.0.1:${own.monitor}`,
      start(servers, { syncAlways } = { syncAlways: true }) {
        mkdirSync(dir, { recursive: true });
        const path = join(dir, "nats.conf");
        writeFileSync(
          path,
          configOf({ name, dir, own, known: ports.slice(0, servers), storeBytes, syncAlways }),
        );
        return spawn(found.path, ["-c", path], { stdio: process.env.FLEET_TEST_LOG ? "inherit" : "ignore" });
      },
    };
  });
}

function configOf({
  name,
  dir,
  own: { client, route, monitor },
  known,
  storeBytes,
  syncAlways,
}: {
  readonly name: string;
  readonly dir: string;
  readonly own: Ports;
  readonly known: readonly Ports[];
  readonly storeBytes: number;
  readonly syncAlways: boolean;
}): string {
  const routes = known.map((one) => `"nats://127.0.0.1:${one.route}"`).join(", ");
  return [
    `server_name: "${name}"`,
    `listen: "127.0.0.1:${client}"`,
    `http: "127.0.0.1:${monitor}"`,
    `max_payload: ${LIMITS.message_bytes_max}`,
    `server_tags: ["sync:always"]`,
    `jetstream { store_dir: "${dir}", max_file_store: ${storeBytes}${syncAlways ? ", sync_interval: always" : ""} }`,
    // Clients use the addresses that they were given, which may be those of proxies.
    `cluster { name: "test", listen: "127.0.0.1:${route}", no_advertise: true, routes: [${routes}] }\n`,
  ].join("\n");
}
