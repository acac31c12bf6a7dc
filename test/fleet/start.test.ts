/** A failed start yields one clear line and an exit code. A running process serves its metrics and health checks. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../harness/processes/fleet.ts";
import { projectRoot } from "../harness/project-root.ts";

interface FleetExit {
  readonly code: number | null;
  readonly stderr: string;
}

/** Runs the standalone fleet until it exits. */
async function failingStart(env: Record<string, string>, args: readonly string[] = []): Promise<FleetExit> {
  const home = mkdtempSync(join(tmpdir(), "fleet-start-"));
  const child = spawn(process.execPath, ["services/standalone/main.ts", ...args], {
    cwd: projectRoot,
    env: { ...process.env, FLEET_HOME: home, FLEET_NATS_PORT: "-1", FLEET_OPS_PORT: "0", ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  const [code] = (await once(child, "close")) as [number | null];
  rmSync(home, { recursive: true, force: true });
  return { code, stderr };
}

function expectOneLine({ stderr }: FleetExit): void {
  const lines = stderr.trim().split("\n");
  expect(lines, stderr).toHaveLength(1);
  expect(stderr).not.toMatch(/^\s+at /m);
}

test("the fleet and its service threads load their code with the compile cache", async () => {
  const env = { NODE_COMPILE_CACHE: "", NODE_DEBUG_NATIVE: "COMPILE_CACHE" };
  const fleet = await startFleet({ FLEET_LOG_LEVEL: "warn", FLEET_THREADS: "2", ...env });
  await fleet.stop();
  const cached = (path: string) => `for ESM file://${join(projectRoot, path)}`;
  expect(fleet.output()).toContain(join(projectRoot, ".fleet", "compile-cache"));
  expect(fleet.output()).toContain(cached("services/standalone/standalone.ts"));
  expect(fleet.output()).toContain(cached("services/writer/writer.ts"));
}, 60_000);

describe("a failed start", () => {
  let fleet: TestFleet;
  beforeAll(async () => {
    fleet = await startFleet({ FLEET_LOG_LEVEL: "warn" });
  });
  afterAll(() => fleet.stop());

  test("invalid settings are all named at once, without a stack", async () => {
    const ending = await failingStart({ FLEET_NATS_PORT: "many", FLEET_LOG_LEVEL: "loud" });
    expect(ending.code).toBe(78);
    expect(ending.stderr).toContain("FLEET_NATS_PORT");
    expect(ending.stderr).toContain("FLEET_LOG_LEVEL");
    expect(ending.stderr).not.toMatch(/^\s+at /m);
  });

  test("an unknown option", async () => {
    const ending = await failingStart({}, ["--prot", "5222"]);
    expectOneLine(ending);
    expect(ending.code).toBe(64);
    expect(ending.stderr).toContain("did you mean `--port`");
  });

  test("taken ports name the fleet that has them, and nothing is made", async () => {
    const home = join(tmpdir(), `fleet-start-taken-${process.pid}`);
    const [natsPort, opsPort] = [new URL(fleet.url).port, new URL(fleet.opsUrl()).port];
    const ending = await failingStart({
      FLEET_HOME: home,
      FLEET_NATS_PORT: natsPort,
      FLEET_OPS_PORT: opsPort,
    });
    expectOneLine(ending);
    expect(ending.code).toBe(69);
    for (const part of [natsPort, opsPort, fleet.home, String(fleet.pid())])
      expect(ending.stderr).toContain(part);
    expect(existsSync(home)).toBe(false);
  });

  test("a taken operations port", async () => {
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const ending = await failingStart({ FLEET_OPS_PORT: String(port) });
    server.close();
    expectOneLine(ending);
    expect(ending.stderr).toContain(String(port));
  });

  test("a store that another process holds", async () => {
    const ending = await failingStart({ FLEET_STORE: `lmdb:${fleet.home}/store` });
    expectOneLine(ending);
    expect(ending.code).toBe(69);
    expect(ending.stderr).toContain(String(fleet.pid()));
    expect((await fetch(`${fleet.opsUrl()}/readyz`)).status).toBe(200);
  });

  test("a home that another fleet uses", async () => {
    const ending = await failingStart({ FLEET_HOME: fleet.home });
    expectOneLine(ending);
    expect((await fetch(`${fleet.opsUrl()}/readyz`)).status).toBe(200);
  });

  test("an unknown kind of store URL", async () => {
    const ending = await failingStart({ FLEET_STORE: "postgres://nope" });
    expectOneLine(ending);
    expect(ending.stderr).toContain("lmdb:");
  });

  test("FoundationDB without its client library", async () => {
    const ending = await failingStart({ FLEET_STORE: "fdb:/nowhere/fdb.cluster", LD_LIBRARY_PATH: "" });
    expect(ending.code).not.toBe(0);
    expect(ending.stderr).not.toMatch(/^\s+at /m);
  });

  test("a nats-server that is too old", async () => {
    const folder = mkdtempSync(join(tmpdir(), "fleet-old-nats-"));
    const path = join(folder, "nats-server");
    writeFileSync(path, "#!/bin/sh\necho 'nats-server: v2.9.10'\n");
    chmodSync(path, 0o755);
    const ending = await failingStart({ FLEET_NATS_SERVER: path });
    rmSync(folder, { recursive: true });
    expectOneLine(ending);
    expect(ending.stderr).toContain("2.9.10");
  });

  test("a full disk", async (context) => {
    const folder = mkdtempSync(join(tmpdir(), "fleet-full-"));
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], { stdio: "ignore" });
    } catch {
      rmSync(folder, { recursive: true });
      return context.skip("a small file system cannot be mounted here");
    }
    try {
      mkdirSync(join(folder, "home"));
      const ending = await failingStart({ FLEET_HOME: join(folder, "home") });
      expectOneLine(ending);
      expect(ending.code).not.toBe(0);
    } finally {
      execFileSync("umount", [folder]);
      rmSync(folder, { recursive: true });
    }
  });

  test("metrics have the names that dashboards expect, and count events", async () => {
    const client = await fleet.client();
    const outcome = await client.createCheckpoint({
      taskId: "metrics",
      checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase: "testing" } },
    });
    await client.getCheckpoint(outcome.checkpointId);
    const text = await (await fetch(`${fleet.opsUrl()}/metrics`)).text();
    expect(text).toMatch(/checkpoint_write_latency_ms_count\{[^}]*op="create"[^}]*\} [1-9]/);
    expect(text).toMatch(/checkpoint_read_latency_ms_count\{[^}]*op="get"[^}]*\} [1-9]/);
    for (const name of ["handoff_success_rate", "recovery_attempts_total"])
      expect(text).toContain(`# TYPE ${name}`);
    expect((await fetch(`${fleet.opsUrl()}/healthz`)).status).toBe(200);
  });
});
