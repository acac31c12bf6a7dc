// The configuration of the manifests on real servers: one for `small`, three for `production`, with the files of `fleet access init`.

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { streamFiles } from "../../../services/standalone/nats/stream-folder.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { parseServerName } from "../../../shared/bus/server-name.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { filesWith } from "../../harness/encryption/raw-bytes.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { type BusServers, monitor, startServers, stopServers } from "./bus-servers.ts";
import { FOLDER } from "./manifests.ts";

const SERVERS_MS = 120_000;
const POLL = { timeout: 60_000, interval: 100 };

afterEach(stopServers);

/** A writer makes the streams of the fleet there, over TLS. */
async function makeStreams({ ports, access, tls }: BusServers, replicas: number): Promise<void> {
  const bus = await connectBus({
    url: `tls://localhost:${ports[0]?.client}`,
    name: "writer",
    service: "writer",
    identity: "writer-0",
    log: testLog,
    tls: { caFile: join(tls, "ca.crt") },
    credentials: { credsFile: join(access, "writer.creds") },
  });
  try {
    await bus.reconcileStreams(fleetStreams({ storageBytes: 1_000_000_000, replicas }));
  } finally {
    await bus.close();
  }
}

async function expectDurable({ ports }: BusServers): Promise<void> {
  const fleets = new Set<string | undefined>();
  for (const [index, { monitor: port }] of ports.entries()) {
    await expect.poll(() => monitor(port, "/healthz"), POLL).toMatchObject({ status: "ok" });
    const varz = await monitor(port, "/varz");
    expect(varz).toMatchObject({
      server_name: expect.stringMatching(new RegExp(`-nats-${index}$`)),
      tls_required: true,
      tags: ["sync:always"],
      jetstream: { config: { sync_always: true, store_dir: ".fleet/nats/jetstream" } },
    });
    fleets.add(parseServerName(varz.server_name as string).fleet);
  }
  expect([...fleets]).toEqual([expect.stringMatching(/^[0-9a-f]{16}$/)]);
}

test(
  "the server of `small` is durable, asks for TLS, and accepts a writer's credentials",
  async () => {
    const cluster = await startServers(1, readFileSync(join(FOLDER, "base/nats/cluster.conf"), "utf8"));
    await expectDurable(cluster);
    await makeStreams(cluster, 1);
  },
  SERVERS_MS,
);

test(
  "with a key in their environment the servers keep the same settings, and their streams are encrypted",
  async () => {
    const key = `k${randomBytes(32).toString("hex")}`;
    const conf = readFileSync(join(FOLDER, "overlays/production/cluster.conf"), "utf8");
    const cluster = await startServers(3, conf, undefined, { STREAM_KEY: key });
    await expectDurable(cluster);
    const members = async () =>
      ((await monitor(cluster.ports[0]?.monitor ?? 0, "/jsz")).meta_cluster as { cluster_size?: number })
        ?.cluster_size;
    await expect.poll(members, POLL).toBe(3);
    await makeStreams(cluster, 3);
    const files = () => streamFiles(join(cluster.folder, "data-0", ".fleet", "nats"));
    await expect.poll(() => files().streams, POLL).toBe(fleetStreams({}).length);
    expect(files().plain).toEqual([]);
    expect(filesWith(cluster.folder, key)).toEqual([]);
    const limits = /jetstream \{[\s\S]*?\n\}/;
    const block = (path: string) =>
      (limits.exec(readFileSync(path, "utf8"))?.[0] ?? "")
        .split("\n")
        .filter((line) => !/^ *#|cipher|key:/.test(line));
    expect(block(join(FOLDER, "base/nats/encrypted-server.conf"))).toEqual(
      block(join(projectRoot, "deploy/nats/nats.conf")),
    );
  },
  SERVERS_MS,
);

test(
  "the three servers of `production` are one cluster with three copies of each stream, of one fleet",
  async () => {
    const conf = readFileSync(join(FOLDER, "overlays/production/cluster.conf"), "utf8");
    const cluster = await startServers(3, conf);
    await expectDurable(cluster);
    const members = async () =>
      ((await monitor(cluster.ports[0]?.monitor ?? 0, "/jsz")).meta_cluster as { cluster_size?: number })
        ?.cluster_size;
    await expect.poll(members, POLL).toBe(3);
    await makeStreams(cluster, 3);
    const streams = async () =>
      Promise.all(cluster.ports.map(async (own) => (await monitor(own.monitor, "/jsz")).streams));
    const count = fleetStreams({}).length;
    await expect.poll(streams, POLL).toEqual([count, count, count]);
  },
  SERVERS_MS,
);
