import { spawn } from "node:child_process";
import { once } from "node:events";
import fs, {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { OLDEST_NATS } from "../../../deploy/local/versions.mjs";
import {
  type NatsServer,
  type NatsServerOptions,
  startNatsServer,
} from "../../../services/standalone/nats/server.ts";
import { superviseNatsServer } from "../../../services/standalone/nats/supervisor.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { createLogger } from "../../../shared/runtime/observability/log.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { StartupError, startupProblemOf } from "../../../shared/runtime/process/startup.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { projectRoot } from "../../harness/project-root.ts";

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function folder(): string {
  const dir = mkdtempSync(join(tmpdir(), "fleet-nats-server-"));
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

async function started(options: Partial<NatsServerOptions> = {}): Promise<NatsServer> {
  const dir = options.dir ?? folder();
  const server = await startNatsServer({
    root: projectRoot,
    env: process.env,
    port: -1,
    log: testLog,
    ...options,
    dir,
  });
  cleanups.push(() => server.stop());
  return server;
}

async function refusal(options: Partial<NatsServerOptions>): Promise<StartupError> {
  const error = await started(options).catch((failure: unknown) => failure);
  expect(error).toBeInstanceOf(StartupError);
  expect(startupProblemOf(error)?.text).not.toContain("\n");
  return error as StartupError;
}

const running = (pid: number) => processMark(pid) !== undefined;

test("a started server is on loopback, syncs before it acknowledges and takes the largest message", async () => {
  const server = await started();
  expect(new URL(server.url).hostname).toBe("127.0.0.1");
  const answer = await fetch(`${server.monitorUrl}/varz`);
  const varz = (await answer.json()) as { jetstream: { config: { max_storage: number } } };
  expect(varz).toMatchObject({ max_payload: 2_097_152, jetstream: { config: { sync_always: true } } });
  expect(varz.jetstream.config.max_storage).toBe(server.storeBytesMax);
  await server.stop();
  expect(await server.exited).toMatchObject({ expected: true });
  expect(running(server.pid)).toBe(false);
});

test("problems that a running server reports are warnings in the log", async () => {
  const warnings: Record<string, unknown>[] = [];
  const log = createLogger({
    service: "test",
    level: "warn",
    destination: { write: (line) => void warnings.push(JSON.parse(line)) },
  });
  const { port } = await started({ log });
  const socket = connect(port, "127.0.0.1", () => socket.write("NONSENSE\r\n"));
  socket.on("error", () => {}).resume();
  await once(socket, "close");
  await expect
    .poll(() => warnings, { timeout: 20_000 })
    .toMatchObject([{ msg: "nats-server reports a problem", line: expect.stringContaining("parser ERROR") }]);
});

test("the store keeps the size limit of the first start", async () => {
  const dir = folder();
  const first = await started({ dir });
  await first.stop();
  const path = join(dir, "nats.conf");
  writeFileSync(path, readFileSync(path, "utf8").replace(/max_file_store: \d+/, "max_file_store: 123456789"));
  expect((await started({ dir })).storeBytesMax).toBe(123_456_789);
});

test("an unexpected exit is reported as such", async () => {
  const server = await started();
  server.kill("SIGKILL");
  expect(await server.exited).toEqual({ code: null, signal: "SIGKILL", expected: false });
});

test("a taken port yields one line with a hint", async () => {
  const holder = createServer();
  await new Promise<void>((resolve) => holder.listen(0, "127.0.0.1", resolve));
  const { port } = holder.address() as { port: number };
  const error = await refusal({ port });
  expect(error).toMatchObject({ message: "the port of the bus is taken", exitCode: 69, details: { port } });
  expect(error.hint).toContain("FLEET_NATS_PORT");
  holder.close();
});

test("a folder that cannot be created yields one line", async () => {
  const file = join(folder(), "file");
  writeFileSync(file, "");
  expect(await refusal({ dir: join(file, "below") })).toMatchObject({
    message: "the folder for messages cannot be used",
    exitCode: 69,
  });
});

test("a missing or outdated binary yields one line that says what to do", async () => {
  const env = { PATH: "" };
  expect(await refusal({ root: folder(), env })).toMatchObject({
    exitCode: 69,
    hint: "run: node deploy/local/setup.mjs",
  });
  const old = join(folder(), "nats-server");
  writeFileSync(old, "#!/bin/sh\necho nats-server: v2.9.10\n");
  chmodSync(old, 0o755);
  const error = await refusal({ env: { FLEET_NATS_SERVER: old } });
  expect(String(error.details.problem)).toContain("2.9.10");
  expect(String(error.details.problem)).toContain(OLDEST_NATS);
});

test("a folder that another fleet uses is refused until that fleet has stopped", async () => {
  const dir = folder();
  const first = await started({ dir });
  expect(await refusal({ dir })).toMatchObject({ details: { pid: process.pid } });
  expect(running(first.pid)).toBe(true);
  await first.stop();
  await started({ dir });
});

/** A process that starts a server in `dir` and prints its process id and address. Without a shell there is no guard. */
async function otherFleet(
  dir: string,
  { guarded = true } = {},
): Promise<{ pid: number; natsPid: number; url: string; exited: Promise<unknown> }> {
  const script = `
    import { startNatsServer } from ${JSON.stringify(`${projectRoot}services/standalone/nats/server.ts`)};
    import { createLogger } from ${JSON.stringify(`${projectRoot}shared/runtime/observability/log.ts`)};
    const log = createLogger({ service: "other", level: "silent" });
    const env = { ...process.env };
    if (!${guarded}) process.env.PATH = "/nowhere";
    const s = await startNatsServer({ root: ${JSON.stringify(projectRoot)}, env, dir: process.argv[1], port: -1, log });
    console.log(JSON.stringify({ natsPid: s.pid, url: s.url }));
    setInterval(() => {}, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script, dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  cleanups.push(() => child.kill("SIGKILL"));
  const [line] = (await once(createInterface({ input: child.stdout! }), "line")) as [string];
  return { pid: child.pid!, ...JSON.parse(line), exited: once(child, "exit") };
}

test("the server ends when its parent is killed", async () => {
  const other = await otherFleet(folder());
  expect(running(other.natsPid)).toBe(true);
  process.kill(other.pid, "SIGKILL");
  await vi.waitFor(() => expect(running(other.natsPid)).toBe(false), { timeout: 15_000, interval: 20 });
});

test("the next start in a folder stops an orphan that no guard stopped", async () => {
  const dir = folder();
  const first = await otherFleet(dir, { guarded: false });
  process.kill(first.pid, "SIGKILL");
  await first.exited;
  expect(running(first.natsPid)).toBe(true);
  const next = await started({ dir });
  expect(running(first.natsPid)).toBe(false);
  expect(running(next.pid)).toBe(true);
});

test("a note whose process id now belongs to another process stops nothing", async () => {
  const dir = folder();
  mkdirSync(dir, { recursive: true });
  const bystander = spawn("sleep", ["60"]);
  cleanups.push(() => bystander.kill("SIGKILL"));
  const note = { pid: bystander.pid, mark: "of an earlier process" };
  writeFileSync(join(dir, "server.json"), JSON.stringify(note));
  await started({ dir });
  expect(bystander.exitCode ?? bystander.signalCode).toBeNull();
});

test("an incomplete note, as a full disk leaves it, does not prevent a start", async () => {
  const dir = folder();
  writeFileSync(join(dir, "server.json"), '{"pi');
  await started({ dir });
});

/** Makes writes of the file fail, as on a full disk. Returns the function that undoes it, which the end of the test calls too. */
function unwritable(path: string): () => void {
  const { openSync } = fs;
  fs.openSync = (...args: Parameters<typeof openSync>) => {
    if (String(args[0]).startsWith(`${path}.`))
      throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    return openSync(...args);
  };
  syncBuiltinESMExports();
  const undo = () => {
    fs.openSync = openSync;
    syncBuiltinESMExports();
  };
  onTestFinished(undo);
  return undo;
}

test("a server whose note cannot be written is stopped", async () => {
  const dir = folder();
  const first = await started({ dir });
  await first.stop();
  const undo = unwritable(join(dir, "server.json"));
  await expect(started({ dir, port: first.port })).rejects.toMatchObject({ details: { code: "ENOSPC" } });
  undo();
  // The port is free, so no server was left.
  expect((await started({ dir, port: first.port })).port).toBe(first.port);
});

test("a start that cannot write its settings keeps those of the first start", async () => {
  const dir = folder();
  const first = await started({ dir });
  await first.stop();
  const settings = readFileSync(join(dir, "nats.conf"), "utf8");
  const undo = unwritable(join(dir, "nats.conf"));
  await expect(started({ dir })).rejects.toMatchObject({ details: { code: "ENOSPC" } });
  expect(readFileSync(join(dir, "nats.conf"), "utf8")).toBe(settings);
  undo();
  expect((await started({ dir })).storeBytesMax).toBe(first.storeBytesMax);
});

test("a supervised server that is killed restarts on its port with its stored messages", async () => {
  const dir = folder();
  const supervised = await superviseNatsServer({
    root: projectRoot,
    env: process.env,
    dir,
    port: -1,
    log: testLog,
  });
  cleanups.push(() => supervised.stop());
  const bus = await connectBus({ url: supervised.url, name: "x", identity: "x", log: testLog });
  cleanups.push(() => bus.close({ drainMs: 1_000 }));
  const back = new Promise<void>((resolve) => bus.onStatus((status) => status === "connected" && resolve()));
  const first = supervised.current().pid;
  supervised.current().kill("SIGKILL");
  await back;
  await vi.waitFor(() => expect(supervised.current().pid).not.toBe(first), { timeout: 10_000, interval: 20 });
  expect(supervised.current().port).toBe(supervised.port);
  expect((await bus.health({ timeoutMs: 5_000 })).ok).toBe(true);
  await supervised.stop();
  expect(running(supervised.current().pid)).toBe(false);
  expect(existsSync(join(dir, "server.json"))).toBe(false);
});
