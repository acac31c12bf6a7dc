// The configuration of the manifests on real servers: one for `small`, three for `production`, with the files of `fleet access init`.

import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { writeClusterFiles } from "../../../shared/bus/access/cluster.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { parseServerName } from "../../../shared/bus/server-name.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { makeAuthority, makeCertificate } from "../../harness/certificates.ts";
import { freePort } from "../../harness/free-port.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { FOLDER } from "./manifests.ts";

const SERVERS_MS = 120_000;
const POLL = { timeout: 60_000, interval: 100 };
const folders: string[] = [];
const servers: ChildProcess[] = [];

afterEach(async () => {
  for (const server of servers.splice(0)) {
    const ended = new Promise((resolve) => server.once("exit", resolve));
    if (server.exitCode === null && server.kill("SIGKILL")) await ended;
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

interface Ports {
  readonly client: number;
  readonly route: number;
  readonly monitor: number;
}

interface Cluster {
  readonly ports: readonly Ports[];
  readonly access: string;
  readonly ca: string;
}

/** Starts the servers as their pods do, with other addresses. */
async function start(count: number, clusterConf: string): Promise<Cluster> {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  const folder = mkdtempSync(join(tmpdir(), "fleet-kubernetes-nats-"));
  folders.push(folder);
  const access = join(folder, "access");
  const tls = join(folder, "tls");
  mkdirSync(tls);
  makeAuthority(tls, "ca");
  makeCertificate(tls, "server", { names: "DNS:localhost,IP:127.0.0.1" });
  cpSync(join(tls, "ca.pem"), join(tls, "ca.crt"));
  cpSync(join(tls, "server.pem"), join(tls, "tls.crt"));
  cpSync(join(tls, "server.key"), join(tls, "tls.key"));
  const serverConfig = readFileSync(join(projectRoot, "deploy/nats/nats.conf"), "utf8");
  await writeClusterFiles({ keys: join(folder, "keys"), dir: access, serverConfig, now: new Date() });
  const ports = await Promise.all(
    Array.from({ length: count }, async () => ({
      client: await freePort(),
      route: await freePort(),
      monitor: await freePort(),
    })),
  );
  const localised = (text: string, own: Ports): string =>
    text
      .replaceAll("/etc/fleet/tls", tls)
      .replaceAll("0.0.0.0:4222", `127.0.0.1:${own.client}`)
      .replaceAll("0.0.0.0:8222", `127.0.0.1:${own.monitor}`)
      .replaceAll("0.0.0.0:6222", `127.0.0.1:${own.route}`)
      .replaceAll(/nats-(\d)\.nats-headless\.\S+?:6222/g, (_, at) => `localhost:${ports[Number(at)]?.route}`);
  const base = readFileSync(join(FOLDER, "base/nats/server.conf"), "utf8");
  for (const [index, own] of ports.entries()) {
    const dir = join(folder, `server-${index}`);
    const data = join(folder, `data-${index}`);
    mkdirSync(dir);
    mkdirSync(data);
    writeFileSync(join(dir, "server.conf"), localised(base, own));
    writeFileSync(join(dir, "cluster.conf"), localised(clusterConf, own));
    const pod = readFileSync(join(FOLDER, "base/nats.yaml"), "utf8");
    const script = /- >-\n([\s\S]*?)\n {10}env:/.exec(pod)?.[1]?.replaceAll(/\n?\s{14}/g, " ") ?? "";
    const local = script
      .replaceAll("/etc/fleet/access", access)
      .replace("/etc/fleet/server", dir)
      .replace("exec nats-server", `exec "${found.path}"`);
    const env = { ...process.env, POD_NAME: `nats-${index}` };
    const stdio = process.env.FLEET_TEST_LOG ? "inherit" : "ignore";
    servers.push(spawn("sh", ["-c", local], { cwd: data, env, stdio }));
  }
  return { ports, access, ca: join(tls, "ca.crt") };
}

async function monitor(port: number, path: string): Promise<Record<string, unknown>> {
  try {
    return (await (await fetch(`http://127.0.0.1:${port}${path}`)).json()) as Record<string, unknown>;
  } catch {
    return {}; // it has not started yet
  }
}

/** A writer makes the streams of the fleet there, over TLS. */
async function makeStreams({ ports, access, ca }: Cluster, replicas: number): Promise<void> {
  const bus = await connectBus({
    url: `tls://localhost:${ports[0]?.client}`,
    name: "writer",
    service: "writer",
    identity: "writer-0",
    log: testLog,
    tls: { caFile: ca },
    credentials: { credsFile: join(access, "writer.creds") },
  });
  try {
    await bus.reconcileStreams(fleetStreams({ storageBytes: 1_000_000_000, replicas }));
  } finally {
    await bus.close();
  }
}

async function expectDurable({ ports }: Cluster): Promise<void> {
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
    const cluster = await start(1, readFileSync(join(FOLDER, "base/nats/cluster.conf"), "utf8"));
    await expectDurable(cluster);
    await makeStreams(cluster, 1);
  },
  SERVERS_MS,
);

test(
  "the three servers of `production` are one cluster with three copies of each stream, of one fleet",
  async () => {
    const conf = readFileSync(join(FOLDER, "overlays/production/cluster.conf"), "utf8");
    const cluster = await start(3, conf);
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
