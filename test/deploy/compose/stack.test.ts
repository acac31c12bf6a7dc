// The stack of docker-compose.yml in a container engine: the documented commands start it, the demo passes on it, containers are killed
// while it works, and it stops.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { docker, missingEngine, missingImages } from "../../harness/containers/engine.ts";
import { freePort } from "../../harness/free-port.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { callCli } from "../../services/cli/call.ts";
import { missingBuild } from "../image/image-build.ts";
import { readCompose } from "./compose-file.ts";

const START_MS = 1_200_000;
const DEMO_MS = 600_000;
/** Pages for people. The fleet works without them. */
const PAGES = ["prometheus", "grafana", "collector"];

const { services } = readCompose(process.env);
const project = `fleet-test-${randomUUID().slice(0, 8)}`;
const folder = mkdtempSync(join(tmpdir(), "fleet-stack-"));
const home = join(folder, ".fleet");
const env: NodeJS.ProcessEnv = { SERVICES_IMAGE: `${project}:test`, COMPOSE_PROJECT_NAME: project };
const compose = (...args: string[]) => docker(["compose", ...args], env);

const missing = (await missingBuild()) ?? (await missingCompose());
if (missing !== undefined) process.stderr.write(`compose: the stack is not started, because ${missing}\n`);
const absent = missing === undefined ? await absentPages() : [];
if (absent.length > 0)
  process.stderr.write(`compose: started without ${absent.join(", ")}, whose images are not here\n`);

async function missingCompose(): Promise<string | undefined> {
  if ((await missingEngine()) !== undefined) return "no container engine answers";
  return docker(["compose", "version"]).then(
    () => undefined,
    () => "docker has no command compose",
  );
}

async function absentPages(): Promise<string[]> {
  const missingOnes = await missingImages(PAGES.map((name) => services[name]?.image ?? ""));
  return PAGES.filter((name) => missingOnes.includes(services[name]?.image ?? ""));
}

/** The containers of a service. */
const containers = async (service: string): Promise<string[]> =>
  (await compose("ps", "--quiet", service)).split("\n").filter(Boolean);

describe.skipIf(missing !== undefined)("the stack", () => {
  beforeAll(async () => {
    const ports = [
      "FLEET_NATS_PORT",
      "NATS_1_PORT",
      "NATS_2_PORT",
      "FLEET_GATEWAY_PORT",
      "PROMETHEUS_PORT",
      "GRAFANA_PORT",
    ];
    for (const name of ports) env[name] = String(await freePort());
    const usual = Object.entries(services).filter(([, { profiles }]) => profiles === undefined);
    const named =
      absent.length === 0 ? [] : usual.map(([name]) => name).filter((name) => !absent.includes(name));
    await compose("up", "--build", "--wait", ...named);
    await compose("cp", "init:/data/client", home);
  }, START_MS);

  afterAll(async () => {
    if (process.env.FLEET_TEST_LOG) process.stderr.write(await compose("logs", "--no-color").catch(String));
    await compose("down", "--volumes", "--timeout", "30");
    await docker(["image", "rm", "--force", `${project}:test`]).catch(() => {});
    rmSync(folder, { recursive: true, force: true });
  }, START_MS);

  test("programs of the host see every part work", async () => {
    const status = await callCli(["status", "--json"], { env: { FLEET_HOME: home } });
    expect({ exit: status.exit, err: status.err }).toEqual({ exit: 0, err: "" });
    expect(JSON.parse(status.out)).toMatchObject({
      store: { ok: true, engine: "foundationdb" },
      bus: { ok: true },
    });
    for (const name of ["writer", "reader", "watchdog"]) expect(await containers(name), name).toHaveLength(2);
  });

  test("the demo passes on it", { timeout: DEMO_MS }, async () => {
    const child = spawn(process.execPath, ["deploy/demo/main.ts", "--exit", "--running"], {
      cwd: projectRoot,
      env: { ...process.env, FLEET_HOME: home, NO_COLOR: "1" },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const [out, err, [exit]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, "close"),
    ]);
    expect(exit, out + err).toBe(0);
    expect(out).toContain("the demo uses the running fleet at tls://localhost:");
    expect(out).not.toContain("✗");
  });

  test("every commit is signed, by one key that the services replace", { timeout: DEMO_MS }, async () => {
    const call = async (...args: string[]) => {
      const { exit, out, err } = await callCli([...args, "--json"], { env: { FLEET_HOME: home } });
      return { exit, err, data: JSON.parse(out) };
    };
    const checks = async () => {
      const { data } = await call("doctor");
      const found = data.checks.filter(({ code }: { code: string }) => code.startsWith("signing."));
      return found.map(({ code, state }: { code: string; state: string }) => `${code} ${state}`);
    };
    const sound = ["services", "files", "required", "keys"].map((one) => `signing.${one} ok`);
    expect(await checks()).toEqual(sound);
    const write = "checkpoint create --task signed --type implementation --phase testing --pending more";
    expect(await call(...write.split(" "))).toMatchObject({ exit: 0, err: "" });
    expect(await call("keys", "rotate")).toMatchObject({ exit: 0, err: "" });
    expect(await call("audit", "verify", "signed")).toMatchObject({
      exit: 0,
      data: { ok: true, signatures: { signed: 1, unsigned: 0, problems: [] } },
    });
    await expect.poll(checks, { timeout: DEMO_MS / 4, interval: 500 }).toEqual(sound);
  });

  test("it works without any one server of the bus, and heals", { timeout: DEMO_MS }, async () => {
    const [server = ""] = await containers("nats-0");
    const create =
      "checkpoint create --task one-server-less --type implementation --phase testing --pending more -q";
    await docker(["kill", server]);
    const written = await callCli(create.split(" "), { env: { FLEET_HOME: home } });
    expect({ exit: written.exit, err: written.err }).toEqual({ exit: 0, err: "" });
    await docker(["start", server]);
    const health = async () =>
      (await docker(["inspect", "--format", "{{.State.Health.Status}}", server])).trim();
    await expect.poll(health, { timeout: DEMO_MS / 2, interval: 500 }).toBe("healthy");
  });
});
