// Each service runs with the command and the variables of its pod, against a bus with TLS and rights, and its probes answer. Only the store is
// another one: LMDB in place of FoundationDB.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import { issueGrant } from "../../../shared/bus/access/administration.ts";
import { newSigningKeyPem } from "../../../shared/integrity/dsse.ts";
import { freePort } from "../../harness/free-port.ts";
import { type Role, startService, type TestService } from "../../harness/processes/services.ts";
import { type BusServers, startServers, stopServers } from "./bus-servers.ts";
import { containersOf, FOLDER, rawResources, workloads } from "./manifests.ts";

const PROCESSES_MS = 120_000;
const POLL = { timeout: 60_000, interval: 100 };
const started: TestService[] = [];
let bus: BusServers;

beforeAll(async () => {
  bus = await startServers(1, readFileSync(join(FOLDER, "base/nats/cluster.conf"), "utf8"));
  // Mode 0440, as in the volume of its Secret.
  writeFileSync(join(bus.folder, "signing-key.pem"), newSigningKeyPem(), { mode: 0o440 });
}, PROCESSES_MS);
afterAll(async () => {
  await Promise.all(started.map((service) => service.kill9()));
  await stopServers();
}, PROCESSES_MS);

/** The variables of the ConfigMap that the services share. */
function settings(): Record<string, string> {
  const { configMapGenerator } = parse(readFileSync(join(FOLDER, "base/kustomization.yaml"), "utf8")) as {
    configMapGenerator: { name: string; literals?: string[] }[];
  };
  const { literals = [] } = configMapGenerator.find(({ name }) => name === "settings") ?? {};
  return Object.fromEntries(literals.map((line) => line.split(/=(.*)/s).slice(0, 2)));
}

const isSigning = (role: Role): boolean => ["writer", "reader", "coordinator", "watchdog"].includes(role);

/** Those that the patch adds to services with a store. */
function signingVariables(): { name: string; value?: string }[] {
  const patch = parse(readFileSync(join(FOLDER, "base/signing-patch.yaml"), "utf8"));
  return patch.spec.template.spec.containers[0].env;
}

/** Starts a service as its pod does, with the folders and addresses of this machine. Returns the port of its probes. */
async function start(role: Role, path: string): Promise<number> {
  const [workload] = workloads(rawResources().get(path) ?? []);
  const [container] = workload === undefined ? [] : containersOf(workload);
  const signing = isSigning(role) ? signingVariables() : [];
  const own = Object.fromEntries(
    [...(container?.env ?? []), ...signing].map(({ name, value = "" }) => [name, value]),
  );
  const opsPort = await freePort();
  const access = join(bus.folder, `${role}-access`);
  mkdirSync(access);
  for (const [name, text] of Object.entries(await secretOf(role))) {
    // As in the volume of a Secret. The signing service gets copies, as its pod makes them.
    writeFileSync(join(access, name), text, { mode: role === "signer" ? 0o600 : 0o644 });
  }
  const folders: [string, string][] = [
    ["/etc/fleet/access", access],
    ["/etc/fleet/tls", bus.tls],
    ["/etc/fleet/ca", bus.tls],
    ["/etc/fleet/signer", join(FOLDER, "base/signer")],
    ["/etc/fleet/runner", join(FOLDER, "runner")],
    ["/etc/fleet/api-keys", join(bus.folder, "api-keys")],
    ["/etc/fleet/signing", bus.folder],
    ["/tmp", join(bus.folder, `${role}-tmp`)],
    ["/data", join(bus.folder, `${role}-data`)],
  ];
  const moved = Object.entries({ ...(path.startsWith("base/") && settings()), ...own }).map(
    ([name, value]) => {
      const [from, to] = folders.find(([folder]) => value.startsWith(`${folder}/`) || value === folder) ?? [
        "",
        "",
      ];
      return [name, `${to}${value.slice(from.length)}`];
    },
  );
  const service = await startService(role, {
    ...Object.fromEntries(moved),
    FLEET_URL: `tls://localhost:${bus.ports[0]?.client}`,
    FLEET_NATS_MONITOR_URL: `http://127.0.0.1:${bus.ports[0]?.monitor}`,
    FLEET_STORE: `lmdb:${join(bus.folder, "store")}?shared`,
    FLEET_OPS_PORT: String(opsPort),
    ...(role === "gateway" && { FLEET_GATEWAY_PORT: String(await freePort()) }),
  });
  started.push(service);
  expect(container?.image, path).toMatch(/^fleet/);
  return opsPort;
}

/** The entries of the Secret that the README makes for the service. */
async function secretOf(role: Role): Promise<Record<string, string>> {
  const ca = readFileSync(join(bus.tls, "ca.crt"), "utf8");
  const file = (name: string) => readFileSync(join(bus.access, name), "utf8");
  if (role === "gateway") return {};
  if (role === "signer") return { "bus.creds": file("signer.creds"), "signer.keys": file("signer.keys") };
  if (role !== "runner") return { "bus.creds": file(`${role}.creds`) };
  const grant = {
    role,
    tenant: "default",
    name: "runner-cluster",
    expiresAt: null,
    now: new Date(),
  } as const;
  return { "bus.creds": (await issueGrant(bus.keys, grant)).credentials, "ca.crt": ca };
}

const probe = (port: number, path: string) => async (): Promise<{ status: number; text: string }> => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: answer.status, text: await answer.text() };
};

test.each([
  ["writer", "base/writer.yaml"],
  ["reader", "base/reader.yaml"],
  ["coordinator", "base/coordinator.yaml"],
  ["watchdog", "base/watchdog.yaml"],
  ["gateway", "base/gateway.yaml"],
  ["runner", "runner/runner.yaml"],
] as const)(
  "the %s is alive and ready",
  async (role, path) => {
    const port = await start(role, path);
    await expect.poll(probe(port, "/readyz"), POLL).toMatchObject({ status: 200 });
    expect(await probe(port, "/healthz")()).toMatchObject({ status: 200 });
    const metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    // A new store requires signatures, so no other one would have started.
    if (isSigning(role)) expect(started.at(-1)?.output()).not.toContain("commits are not signed");
    expect(metrics).toContain(`fleet_process_start_time_seconds{service="fleet-${role}"}`);
    expect(started.at(-1)?.output()).not.toMatch(/is no setting|unknown setting/);
  },
  PROCESSES_MS,
);

test(
  "the signing service is alive, and not ready before it has the keys of the cluster",
  async () => {
    const port = await start("signer", "base/signer.yaml");
    expect(await probe(port, "/healthz")()).toMatchObject({ status: 200 });
    expect(await probe(port, "/readyz")()).toMatchObject({
      status: 503,
      text: expect.stringContaining('"bus":{"ok":true'),
    });
  },
  PROCESSES_MS,
);
