/** The embedded fleet for tests of users: real child processes, from their start to their end by any cause. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, expect, test, vi } from "vitest";
import { createFleet, type EmbeddedFleet } from "../../../services/standalone/embedded/embedded-fleet.ts";
import { processMark } from "../../../shared/runtime/process/process-identity.ts";
import { projectRoot } from "../../harness/project-root.ts";

const children: ChildProcess[] = [];
afterEach(() => {
  vi.unstubAllEnvs();
  for (const child of children.splice(0)) child.kill("SIGKILL");
});

/** The ids of the processes of a fleet: the services and nats-server. */
function processesOf(home: string): number[] {
  return ["addresses.json", "nats/server.json"].map((file) => {
    const { pid } = JSON.parse(readFileSync(join(home, file), "utf8")) as { pid: number };
    return pid;
  });
}

const runningOf = (pids: readonly number[]): number[] => pids.filter((pid) => processMark(pid) !== undefined);

/** Starts a program that creates a fleet and prints its folder; `rest` is the code after that. */
async function startProgram(rest: string) {
  const code = `import { createFleet } from "./services/standalone/embedded/embedded-fleet.ts";
    const fleet = await createFleet();
    console.log(fleet.home);
    ${rest}`;
  const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", code], {
    cwd: projectRoot,
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const ended = once(child, "exit");
  const [home] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
  return { child, ended, home, pids: processesOf(home) };
}

test("two fleets run side by side, apart from the fleet of the environment, and leave nothing", async () => {
  vi.stubEnv("FLEET_URL", "nats://127.0.0.1:1");
  vi.stubEnv("FLEET_HOME", "/nonexistent");
  vi.stubEnv("FLEET_STORE", "memory:");
  let fleets: EmbeddedFleet[] = [];
  let pids: number[] = [];
  {
    await using first = await createFleet();
    await using second = await createFleet({ settings: { FLEET_LOG_LEVEL: "info" } });
    fleets = [first, second];
    pids = fleets.flatMap(({ home }) => processesOf(home));
    const [client, other] = await Promise.all(fleets.map((fleet) => fleet.connect({ agentId: "a" })));
    expect((await client!.takeTask("shown")).fence).toBe(1);
    expect(await client!.task("shown").state()).toMatchObject({ owner: "a" });
    expect(await other!.task("shown").state()).toBeNull();
    expect(second.log()).toContain("writer started");
    expect((await fetch(`${first.opsUrl}/readyz`)).ok).toBe(true);
  }
  expect(runningOf(pids)).toEqual([]);
  expect(fleets.filter(({ home }) => existsSync(home))).toEqual([]);
  await fleets[0]!.stop();
}, 120_000);

test.each([
  ["is killed", "setInterval(() => {}, 1_000);"],
  ["ends without a stop", ""],
])(
  "a fleet ends, with its folder, when its parent %s",
  async (_, rest) => {
    const { child, ended, home, pids } = await startProgram(rest);
    if (rest !== "") child.kill("SIGKILL");
    await ended;
    await expect.poll(() => runningOf(pids), { timeout: 60_000 }).toEqual([]);
    await expect.poll(() => existsSync(home), { timeout: 60_000 }).toBe(false);
  },
  120_000,
);

test("a start that fails states the reason, and leaves no folder", async () => {
  const error = await createFleet({ settings: { FLEET_NATS_SERVER: "/nonexistent/server" } }).catch(
    (failure: unknown) => failure,
  );
  expect(error).toMatchObject({
    code: "UNAVAILABLE",
    details: { code: 69, output: expect.stringContaining("/nonexistent/server") },
  });
}, 60_000);

test("a fleet that was killed is reported by stop, and leaves nothing", async () => {
  const fleet = await createFleet();
  const pids = processesOf(fleet.home);
  process.kill(pids[0]!, "SIGKILL");
  await expect.poll(() => runningOf(pids.slice(0, 1))).toEqual([]);
  await expect(fleet.stop()).rejects.toMatchObject({ code: "UNAVAILABLE", details: { signal: "SIGKILL" } });
  await expect.poll(() => runningOf(pids)).toEqual([]);
  expect(existsSync(fleet.home)).toBe(false);
}, 60_000);

test("an unknown setting is refused before anything starts", async () => {
  await expect(createFleet({ settings: { FLEET_POLICI: "x" } })).rejects.toMatchObject({
    code: "INVALID",
    fields: [{ path: "settings.FLEET_POLICI", expected: expect.stringContaining("FLEET_POLICY") }],
  });
  await expect(createFleet({ settings: { FLEET_HOME: "/tmp" } })).rejects.toMatchObject({ code: "INVALID" });
});
