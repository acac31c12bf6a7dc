// What `init` of docker-compose.yml makes: each service gets its own part, the servers are one durable cluster with it, and programs of
// the host are clients.

import { spawn } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connectBus } from "../../../shared/bus/connection.ts";
import { newSigningKeyPem, signingKeyFrom } from "../../../shared/integrity/dsse.ts";
import { connect } from "../../../shared/sdk/sdk.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { monitor, type ServerFiles, startServers, stopServers } from "../kubernetes/bus-servers.ts";
import { type ComposeService, mountsOf, readCompose } from "./compose-file.ts";

const SERVERS_MS = 120_000;
const POLL = { timeout: 60_000, interval: 100 };
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-init-"));
});
afterEach(async () => {
  await stopServers();
  rmSync(folder, { recursive: true, force: true });
}, SERVERS_MS);

/** Runs the command of the container, with these folders in place of its own. */
async function init(at = folder, change: Readonly<Record<string, string>> = {}) {
  const { command = [] } = readCompose().services.init as ComposeService;
  const given = command.slice(1).map((one) => {
    const [option = ""] = one.split("=");
    return option in change ? `${option}=${change[option]}` : one;
  });
  const env = {
    ...process.env,
    FLEET_HOME: join(at, "home"),
    FLEET_GATEWAY_KEYS: join(at, "access/gateway/api-keys"),
  };
  const args = [...given, `--to=${join(at, "access")}`];
  const child = spawn(process.execPath, args, { cwd: projectRoot, env, stdio: ["ignore", "pipe", "pipe"] });
  const [out, err, [exit]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  return { exit: exit as number, out, err };
}

/** Without the rights of the roles, whose signature has a time. */
const contents = (at: string): Record<string, string> =>
  Object.fromEntries(
    (readdirSync(at, { recursive: true }) as string[])
      .filter((name) => !name.endsWith("access.conf") && statSync(join(at, name)).isFile())
      .map((name) => [name, readFileSync(join(at, name), "utf8")]),
  );

test("each service gets its own part, readable for its user only", async () => {
  expect(await init()).toMatchObject({ exit: 0, err: "" });
  const access = contents(join(folder, "access"));
  const service = (name: string) => ["bus.creds", "ca.crt", "fdb.cluster"].map((file) => `${name}/${file}`);
  const keys = Object.keys(access).filter((name) => name.startsWith("gateway/api-keys/"));
  expect(keys).toHaveLength(1);
  expect(Object.keys(access).sort()).toEqual(
    [
      ...["writer", "reader", "coordinator", "watchdog"].flatMap(service),
      ...["ca.crt", "tls.crt", "tls.key"].flatMap((name) => [`gateway/${name}`, `nats/${name}`]),
      ...["nats/nats.conf", "signing/signing-key.pem", ...keys],
    ].sort(),
  );
  for (const name of Object.keys(access))
    expect(statSync(join(folder, "access", name)).mode & 0o077, name).toBe(0);
  const credentials = ["writer", "reader", "coordinator", "watchdog"].map(
    (name) => access[`${name}/bus.creds`],
  );
  expect(new Set(credentials).size).toBe(4);
  // With the key of the servers, the gateway could join them.
  expect(access["gateway/tls.key"]).not.toBe(access["nats/tls.key"]);
  const [gateway, servers] = ["gateway", "nats"].map(
    (name) => new X509Certificate(access[`${name}/tls.crt`] ?? ""),
  );
  expect(servers?.subjectAltName).toContain("nats-0");
  expect(gateway?.subjectAltName).toContain("DNS:gateway");
  expect(gateway?.subjectAltName).not.toContain("nats");
  expect(signingKeyFrom(access["signing/signing-key.pem"] ?? "").id).toMatch(/^[0-9a-f]{64}$/);
  expect(access["writer/fdb.cluster"]).toBe("fleet:fleet@foundationdb:4500\n");
  expect(access["nats/nats.conf"]).toMatch(/^ {2}sync_interval: always$/m);
  // A seed would give the server's administrator the power to issue credentials.
  expect(readFileSync(join(folder, "access/nats/access.conf"), "utf8")).not.toMatch(/\bS[AOU][A-Z2-7]{56}\b/);
  // The folders are those that the containers mount.
  const targets = mountsOf(readCompose().services.init as ComposeService).map(({ target }) => target);
  for (const name of readdirSync(join(folder, "access"))) expect(targets).toContain(`/access/${name}`);
});

test("a repetition changes nothing, and one after a lost file writes it again", async () => {
  await init();
  const before = contents(folder);
  expect((await init()).out).not.toContain("the certificate is new");
  expect(contents(folder)).toEqual(before);
  rmSync(join(folder, "access/reader"), { recursive: true });
  writeFileSync(join(folder, "access/nats/nats.conf"), "half a fi");
  await init();
  expect(contents(folder)).toEqual(before);
  const renamed = await init(folder, { "--names": "nats-0,nats-1,nats-2,gateway,fleet.example.org" });
  expect(renamed.out).toContain("the certificate is new");
});

test("a repetition keeps the signing key that services have put in its place", async () => {
  await init();
  const next = newSigningKeyPem();
  const file = join(folder, "access/signing/signing-key.pem");
  writeFileSync(file, next);
  await init();
  expect(readFileSync(file, "utf8")).toBe(next);
});

test("wrong calls end with the usage", async () => {
  expect(await init(folder, { "--bus": "nowhere" })).toMatchObject({ exit: 64, out: "" });
  expect((await init(folder, { "--api": "" })).err).toContain("usage: node deploy/compose/init.ts");
});

test("three servers are one durable cluster with the files, and a client folder opens it", {
  timeout: SERVERS_MS,
}, async () => {
  const write = async (at: string): Promise<ServerFiles> => {
    expect(await init(at)).toMatchObject({ exit: 0, err: "" });
    // The configuration of the servers includes ../access/nats.conf.
    cpSync(join(at, "access/nats"), join(at, "tls"), { recursive: true });
    cpSync(join(at, "access/nats"), join(at, "access"), { recursive: true });
    return { access: join(at, "access"), tls: join(at, "tls"), keys: join(at, "home/access") };
  };
  const { services } = readCompose();
  const cluster = mountsOf(services["nats-0"] as ComposeService).find(({ target }) =>
    target.endsWith("/cluster.conf"),
  );
  const servers = await startServers(
    3,
    readFileSync(join(projectRoot, cluster?.source ?? ""), "utf8"),
    write,
  );
  const { ports } = servers;
  for (const { monitor: port } of ports) {
    const state = async () =>
      (await monitor(port, "/jsz")).meta_cluster as { cluster_size?: number; leader?: string };
    await expect.poll(state, POLL).toMatchObject({ cluster_size: 3, leader: expect.any(String) });
    expect(await monitor(port, "/varz")).toMatchObject({
      tls_required: true,
      jetstream: { config: { sync_always: true } },
    });
  }
  const url = ports.map(({ client }) => `tls://localhost:${client}`).join(",");
  const writer = await connectBus({
    url,
    name: "writer",
    service: "writer",
    identity: "writer-0",
    log: testLog,
    tls: { caFile: join(servers.folder, "access/writer/ca.crt") },
    credentials: { credsFile: join(servers.folder, "access/writer/bus.creds") },
  });
  expect(await writer.proveDurability()).toMatchObject({ version: expect.stringMatching(/^2\./) });
  await writer.close();
  // As after `docker compose cp init:/data/client .fleet`, with the ports of this test.
  const again = await init(servers.folder, { "--bus": url });
  expect(again).toMatchObject({ exit: 0, err: "" });
  const client = await connect({
    env: { FLEET_HOME: join(servers.folder, "home/client") },
    agentId: "coder",
    fallback: "none",
  });
  await client.close();
});
