// A bus that ran without credentials gets them: `fleet access init --streams` keeps its streams, and with them the queued commands.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test, vi } from "vitest";
import { findNatsServer } from "../../deploy/local/nats-binary.mjs";
import { type ConnectOptions, connect } from "../../shared/sdk/sdk.ts";
import { type Role, startService, type TestService } from "../harness/processes/services.ts";
import { projectRoot } from "../harness/project-root.ts";
import { input } from "../harness/records/records.ts";
import { callCli } from "../services/cli/call.ts";

const folder = mkdtempSync(join(tmpdir(), "fleet-adopted-"));
const home = join(folder, ".fleet");
const dir = join(folder, "cluster");
const storeDir = join(home, "nats");
const running: TestService[] = [];
let nats: ChildProcess | undefined;
let url: string;

afterAll(async () => {
  await Promise.all(running.map((service) => service.kill9()));
  nats?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

const fleet = (line: string) => callCli(line.split(" "), { env: { FLEET_HOME: home } });

/** Starts the server with this configuration, in the folder to which its paths are relative. */
async function startServer(config: string): Promise<void> {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  const ports = mkdtempSync(join(folder, "ports-"));
  nats = spawn(found.path, ["-c", config, "-p", "-1", "-m", "-1", "--ports_file_dir", ports], {
    cwd: folder,
    stdio: "ignore",
  });
  url = await vi.waitFor(() => {
    const file = readdirSync(ports).find((name) => name.endsWith(".ports"));
    return JSON.parse(readFileSync(join(ports, file ?? "none"), "utf8")).nats[0] as string;
  }, 20_000);
}

async function stopServer(): Promise<void> {
  const ended = once(nats!, "exit");
  nats!.kill("SIGKILL");
  await ended;
}

async function start(role: Role, env: Record<string, string>): Promise<TestService> {
  const place = { FLEET_URL: url, FLEET_STORE: `lmdb:${folder}/store?shared` };
  const service = await startService(role, { ...place, ...env });
  running.push(service);
  return service;
}

const client = (options: ConnectOptions) =>
  connect({ url, agentId: "agent-1", env: { FLEET_HOME: join(folder, "elsewhere") }, ...options });

test("a command that was queued without credentials is applied with them", { timeout: 120_000 }, async () => {
  const open = join(folder, "open.conf");
  const guarded = readFileSync(join(projectRoot, "deploy/nats/nats.conf"), "utf8");
  writeFileSync(open, guarded.replace('include "access.conf"', ""));
  await startServer(open);
  // The writer makes the streams, and is dead when the command comes.
  await (await start("writer", { FLEET_AUTH: "off" })).kill9();
  const agent = await client({ fallback: "queue" });
  const queued = await agent.createCheckpoint({ taskId: "kept", checkpoint: input({}) });
  expect(queued.outcome).toBe("queued");
  await agent.close();
  await stopServer();
  expect(readdirSync(join(storeDir, "jetstream"))).toEqual(["$G"]);

  const wrong = await fleet(`access init ${dir} --streams ${folder}`);
  expect(wrong.exit).toBe(64);
  expect(wrong.err).toContain("--streams");
  expect(readdirSync(folder)).not.toContain("cluster");

  const made = await fleet(`access init ${dir} --streams ${storeDir} --json`);
  expect({ exit: made.exit, err: made.err }).toEqual({ exit: 0, err: "" });
  expect(JSON.parse(made.out)).toMatchObject({ adopted: { from: "$G" } });
  const again = await fleet(`access init ${dir} --streams ${storeDir}`);
  expect(again.out).toContain("No other account has streams there.");

  await startServer(join(dir, "nats.conf"));
  await Promise.all(
    (["writer", "reader"] as const).map((role) =>
      start(role, { FLEET_NATS_CREDS: join(dir, `${role}.creds`) }),
    ),
  );
  const credentials = join(folder, "agent-1.creds");
  expect((await fleet(`access issue --agent agent-1 --out ${credentials}`)).exit).toBe(0);
  const reading = await client({ credentials, fallback: "none" });
  await expect.poll(async () => (await reading.getTask("kept"))?.task_id, { timeout: 30_000 }).toBe("kept");
  await reading.close();
});
