// `fleet mirror` on a fleet whose files are lost, damaged, exchanged and forged.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 120_000;
const UNKNOWN = "0198a3a0-0000-7000-8000-000000000001";

let server: TestFleet;
let client: FleetClient;

const environment = () => ({
  FLEET_URL: server.url,
  FLEET_HOME: server.home,
  FLEET_SPOOL_DIR: join(server.home, "spool"),
});
const fleet = (...args: string[]) => callCli(args, { env: environment() });

async function json(...args: string[]) {
  const { exit, out, err } = await fleet(...args, "--json");
  expect([0, 8], err).toContain(exit);
  return { exit, data: JSON.parse(out) };
}

async function written(taskId: string, goal = "a goal"): Promise<string> {
  // Longer than a busy machine needs: a command that is queued meanwhile has no checkpoint yet.
  const waiting = { deadlineMs: 30_000 };
  const { checkpointId } = await client.createCheckpoint({ taskId, checkpoint: input({ goal }), ...waiting });
  return String(checkpointId);
}

const file = (task: string, id: string) => join(server.home, "checkpoints", task, `chk-${id}.json`);

beforeAll(async () => {
  server = await startFleet();
  client = await server.client();
});
afterAll(() => server.stop());

describe("fleet mirror", { timeout: CALLS_MS }, () => {
  test("a complete mirror has no findings", async () => {
    const ids = [await written("whole"), await written("whole")];
    // The command takes a lag of some seconds for a finding, and a new fleet on a busy machine needs longer.
    await expect.poll(() => ids.every((id) => existsSync(file("whole", id)))).toBe(true);
    const { exit, data } = await json("mirror", "verify");
    expect([exit, data]).toMatchObject([0, { tasks: 1, files: 2, findings: [], corrupt: 0 }]);
    expect((await fleet("mirror", "verify")).out).toContain("Complete: 2 whole files of 1 task");
  });

  const harms: readonly (readonly [string, string, (path: string, other: string) => void])[] = [
    ["lost file", "missing", (path) => rmSync(path)],
    ["torn file", "damaged", (path) => writeFileSync(path, readFileSync(path).subarray(0, 100))],
    ["changed word", "damaged", (path) => replace(path, (text) => text.replace("a goal", "a fool"))],
    ["file of another task", "damaged", (path, other) => copyFileSync(other, path)],
    ["deeply nested array", "damaged", (path) => writeFileSync(path, "[".repeat(900_000))],
    ["prototype as JSON", "damaged", (path) => writeFileSync(path, '{"__proto__":{"compliance":{}}}')],
    ["link to a file with the same content", "damaged", (path) => linkElsewhere(path)],
  ];

  test.each(harms)("a %s is found, and written again", async (what, problem, harm) => {
    const task = `harm-${harms.findIndex(([name]) => name === what)}`;
    const [id, other] = [await written(task), await written("other")];
    await expect.poll(() => existsSync(file(task, id)) && existsSync(file("other", other))).toBe(true);
    harm(file(task, id), file("other", other));
    const { exit, data } = await json("mirror", "verify");
    expect([exit, data.findings]).toEqual([8, [{ task_id: task, checkpoint_id: id, problem }]]);
    const rebuilt = await json("mirror", "rebuild");
    expect([rebuilt.exit, rebuilt.data.findings]).toEqual([0, []]);
    expect(JSON.parse(readFileSync(file(task, id), "utf8"))).toEqual(await client.getCheckpoint(id));
  });

  test("a surplus file is named and never removed", async () => {
    const id = await written("surplus");
    await expect.poll(() => existsSync(file("surplus", id))).toBe(true);
    copyFileSync(file("surplus", id), file("surplus", UNKNOWN));
    const { exit, data } = await json("mirror", "rebuild");
    const finding = { task_id: "surplus", checkpoint_id: UNKNOWN, problem: "surplus" };
    expect([exit, data.findings]).toEqual([8, [finding]]);
    expect(existsSync(file("surplus", UNKNOWN))).toBe(true);
    expect((await fleet("mirror", "verify")).out).toContain("surplus");
    rmSync(file("surplus", UNKNOWN));
  });

  test.each([
    ["the command", async () => {}],
    [
      "the command and the fleet",
      async () => {
        await server.kill9();
        await server.start();
      },
    ],
  ] as const)("a rebuild in which %s is killed is repeated, and ends complete", async (what, killMore) => {
    const task = what.replaceAll(" ", "-");
    const ids: string[] = [];
    for (let n = 0; n < 60; n += 1) ids.push(await written(task, `n ${n}`));
    await expect.poll(() => ids.every((id) => existsSync(file(task, id)))).toBe(true);
    const folder = join(server.home, "checkpoints");
    // The mirror may give a file that it writes its own name meanwhile.
    for (const name of readdirSync(folder))
      rmSync(join(folder, name), { recursive: true, force: true, maxRetries: 20, retryDelay: 20 });
    const child = spawn(process.execPath, ["services/cli/main.ts", "mirror", "rebuild"], {
      cwd: projectRoot,
      env: { ...process.env, ...environment() },
      stdio: "ignore",
    });
    await expect.poll(() => existsSync(join(folder, task)), { timeout: 60_000, interval: 2 }).toBe(true);
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    await killMore();
    const { exit, data } = await json("mirror", "rebuild");
    expect([exit, data.findings]).toEqual([0, []]);
    for (const id of ids)
      expect(JSON.parse(readFileSync(file(task, id), "utf8"))).toEqual(await client.getCheckpoint(id));
  });

  test("a folder without a mirror is refused", async () => {
    const { exit, err } = await fleet("mirror", "verify", join(server.home, "nats"));
    expect([exit, err]).toEqual([64, expect.stringContaining("holds no mirror")]);
  });
});

function replace(path: string, change: (text: string) => string): void {
  writeFileSync(path, change(readFileSync(path, "utf8")));
}

function linkElsewhere(path: string): void {
  const elsewhere = join(mkdtempSync(join(server.home, "elsewhere-")), "file");
  copyFileSync(path, elsewhere);
  rmSync(path);
  symlinkSync(elsewhere, path);
}
