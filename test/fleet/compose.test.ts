// The container of the profile `single` in docker-compose.yml, started as a process with its environment and its command. The host reaches the published ports
// only, and has nothing of the container but the folder that it copied.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from "node:fs";
import type { IncomingMessage } from "node:http";
import { get } from "node:https";
import { type AddressInfo, createServer } from "node:net";
import { networkInterfaces, tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLIENT_ROLES } from "../../shared/protocol/roles.ts";
import { connect } from "../../shared/sdk/sdk.ts";
import { type ComposeService, readCompose } from "../deploy/compose/compose-file.ts";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";
import { projectRoot } from "../harness/project-root.ts";
import { input } from "../harness/records/records.ts";
import { callCli } from "../services/cli/call.ts";
import { cli, environment } from "../services/cli/process.ts";

/** Each call is a process of its own, and a busy machine takes seconds to start one. */
const PROCESSES_MS = 90_000;

const host = mkdtempSync(join(tmpdir(), "fleet-host-"));
let service: ComposeService;
let container: TestFleet;
let ports: { bus: number; operations: number; api: number };

const readService = (variables: Readonly<Record<string, string>>) =>
  readCompose(variables).services.fleet as ComposeService;

const settings = () =>
  Object.fromEntries(
    Object.entries(service.environment ?? {}).map(([name, value]) => [name, String(value ?? "")]),
  );

/** In a folder of the host, without any setting. */
async function onHost(folder: string, ...args: string[]) {
  const options = { cwd: folder, env: environment({}) };
  const child = spawn(process.execPath, [cli, ...args], { ...options, stdio: ["ignore", "pipe", "pipe"] });
  const [out, err, [exit]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "close"),
  ]);
  return { exit: exit as number, out, err };
}

beforeAll(async () => {
  const [bus, operations, api] = await Promise.all([freePort(), freePort(), freePort()]);
  ports = { bus, operations, api };
  const [natsPort, opsPort, gatewayPort] = [bus, operations, api].map(String);
  service = readService({
    ...{ FLEET_NATS_PORT: natsPort!, FLEET_OPS_PORT: opsPort!, FLEET_GATEWAY_PORT: gatewayPort! },
  });
  container = await startFleet(settings());
  // docker compose cp fleet:/data/client .fleet
  cpSync(join(container.home, "client"), join(host, ".fleet"), { recursive: true });
}, PROCESSES_MS);
afterAll(async () => {
  await container?.stop();
  rmSync(host, { recursive: true, force: true });
});

test("the ports are those of the settings, and published on loopback only", () => {
  const { bus, operations, api } = ports;
  expect(service.network_mode).toBeUndefined();
  expect(service.ports).toEqual([bus, operations, api].map((port) => `127.0.0.1:${port}:${port}`));
  expect(readService({}).ports).toEqual([4222, 4280, 4284].map((port) => `127.0.0.1:${port}:${port}`));
  expect(service.volumes).toEqual(["state:/data"]);
  const image = readFileSync(join(projectRoot, "deploy/Dockerfile"), "utf8");
  expect(image).toMatch(/^ENV FLEET_HOME=\/data /m);
  expect(image).toMatch(/^CMD \["node", "services\/standalone\/main.ts"\]$/m);
});

test("the container is reached at an address that is not its loopback", async () => {
  const { operations } = ports;
  const own = Object.values(networkInterfaces()).flat();
  const outside = own.find((each) => each?.family === "IPv4" && !each.internal)?.address ?? "127.0.0.1";
  expect((await fetch(`http://${outside}:${operations}/readyz`)).status).toBe(200);
  const health = (await (await fetch(`http://${outside}:${operations}/healthz`)).json()) as object;
  if (outside !== "127.0.0.1") expect(health).toEqual({ ok: true });
});

test(
  "programs of the host need no setting",
  async () => {
    const below = join(host, "project", "src");
    mkdirSync(below, { recursive: true });
    const status = await onHost(below, "status", "--json");
    expect({ exit: status.exit, err: status.err }).toEqual({ exit: 0, err: "" });
    const { fleet, gatewayUrl: http_api } = recorded(container.home);
    expect(JSON.parse(status.out)).toMatchObject({ fleet, http_api });
    expect((await onHost(below, "status")).out).toContain(`${http_api}/api/docs`);
    const client = await connect({
      env: { FLEET_HOME: join(host, ".fleet") },
      agentId: "coder",
      fallback: "none",
    });
    const written = await client.createCheckpoint({ taskId: "on-the-host", checkpoint: input({}) });
    expect(written.outcome).toBe("committed");
    await client.close();
    expect((await onHost(host, "task", "show", "on-the-host")).out).toMatch(/on-the-host/);
    expect((await fetch(`${recorded(join(host, ".fleet")).opsUrl}/metrics`)).status).toBe(200);
  },
  PROCESSES_MS,
);

test("the HTTP API has the certificate of the fleet, and the key of the copied folder opens it", async () => {
  const folder = join(host, ".fleet");
  const [ca, key] = ["ca.pem", "api-key"].map((name) => readFileSync(join(folder, name), "utf8").trim());
  const url = `${recorded(folder).gatewayUrl}/api/v1/caller`;
  expect(url).toMatch(/^https:/);
  const sent = get(url, { ca, headers: { authorization: `Bearer ${key}` } });
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  expect(answer.statusCode).toBe(200);
  expect(JSON.parse(await text(answer))).toMatchObject({ role: "operator" });
});

test("the copied folder has the keys of clients only, and only its user reads them", async () => {
  const folder = join(host, ".fleet");
  expect(readdirSync(folder).sort()).toEqual(["access", "addresses.json", "api-key", "ca.pem"]);
  expect(statSync(join(folder, "api-key")).mode & 0o077).toBe(0);
  const roles = [...CLIENT_ROLES].sort();
  const keys = readdirSync(join(folder, "access")).sort();
  expect(keys).toEqual(["account.pub", ...roles.map((role) => `role-${role}.nk`)]);
  for (const key of keys) expect(statSync(join(folder, "access", key)).mode & 0o077).toBe(0);
  const issued = await callCli(["access", "issue", "--agent", "guest"], { env: { FLEET_HOME: folder } });
  expect(issued.exit).toBe(64);
  expect(issued.err).toMatch(/keys of clients only.*where the fleet runs/s);
});

test(
  "the copy is found in a folder .fleet that existed, and starts no fleet of its own",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "fleet-host-"));
    try {
      // An installation keeps its nats-server there.
      mkdirSync(join(folder, ".fleet", "bin"), { recursive: true });
      cpSync(join(container.home, "client"), join(folder, ".fleet", "client"), { recursive: true });
      expect((await onHost(folder, "status")).exit).toBe(0);
      chmodSync(join(folder, ".fleet"), 0o777);
      expect(await onHost(folder, "status")).toMatchObject({ exit: 78, out: "" });
      chmodSync(join(folder, ".fleet"), 0o755);
      await expect(startFleet({}, { home: join(folder, ".fleet", "client") })).rejects.toThrow(
        /a copy for clients of a fleet that runs elsewhere/,
      );
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
  PROCESSES_MS,
);

test(
  "a container that is made again keeps its authority, and a new volume is another fleet",
  async () => {
    await container.terminate();
    await container.start();
    expect((await onHost(host, "status")).exit).toBe(0);
    await container.terminate();
    const fresh = await startFleet(settings());
    try {
      const refused = await onHost(host, "status");
      expect({ exit: refused.exit, out: refused.out }).toEqual({ exit: 5, out: "" });
      expect(refused.err).toMatch(/another fleet/i);
    } finally {
      await fresh.stop();
    }
  },
  PROCESSES_MS,
);

function recorded(home: string): {
  readonly fleet: string;
  readonly opsUrl: string;
  readonly gatewayUrl: string;
} {
  return JSON.parse(readFileSync(join(home, "addresses.json"), "utf8"));
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
