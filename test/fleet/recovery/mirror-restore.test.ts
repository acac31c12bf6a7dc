// A lost store comes back from the files of the mirror: a real fleet is killed, its store is deleted, and agents continue from the files.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";

/** A busy machine takes seconds for each call. */
const LAST_MS = 180_000;
/** The trail of the lost store, set aside. */
const ASIDE = /audit\.[0-9a-f]{16}\.jsonl/;

let server: TestFleet;
let client: FleetClient;

beforeEach(async () => {
  server = await startFleet({ FLEET_GATEWAY_PORT: "0", FLEET_SCRUB_EVERY: "off" });
  client = await server.client("writer-1");
}, LAST_MS);
afterEach(() => server.stop());

const environment = () => ({
  FLEET_URL: server.url,
  FLEET_HOME: server.home,
  FLEET_SPOOL_DIR: join(server.home, "spool"),
});
const fleet = (...args: string[]) => callCli(args, { env: environment() });
const file = (task: string, id: string) => join(server.home, "checkpoints", task, `chk-${id}.json`);

async function json(...args: string[]) {
  const { exit, out, err } = await fleet(...args, "--json");
  expect([0, 8], `${out}${err}`).toContain(exit);
  return { exit, ...JSON.parse(out) };
}

async function written(taskId: string, goal: string, fence?: number): Promise<string> {
  const checkpoint = input({ goal });
  const { checkpointId } = await client.createCheckpoint({
    taskId,
    checkpoint,
    ...(fence !== undefined && { fence }),
  });
  return String(checkpointId);
}

/** Kills the fleet, deletes its store, and starts it again with an empty one. The files are complete before. */
async function loseStore(): Promise<void> {
  await expect.poll(() => fleet("mirror", "verify").then(({ exit }) => exit), { timeout: 60_000 }).toBe(0);
  await server.kill9();
  rmSync(join(server.home, "store"), { recursive: true });
  await server.start();
  await expect.poll(() => fleet("status").then(({ exit }) => exit), { timeout: 60_000 }).toBe(0);
}

/** The tasks of other tenants were not restored, so the scrub finds that the store has lost them. */
async function areSound(...tasks: string[]): Promise<void> {
  expect([0, 8]).toContain((await fleet("scrub", "start", "--wait")).exit);
  const { findings } = await json("scrub", "findings");
  const ofTasks = (findings as { readonly task_id: string }[]).filter(({ task_id }) =>
    tasks.includes(task_id),
  );
  expect(ofTasks).toEqual([]);
}

describe("fleet mirror restore", { timeout: LAST_MS }, () => {
  test("tasks come back with their checkpoints, the old owner stays out, and another agent continues", async () => {
    const { fence } = await client.takeTask("task-1");
    const first = await written("task-1", "first", fence);
    await client.finalizeCheckpoint(first, "succeeded", { fence, taskId: "task-1" });
    const parented = input({ goal: "second" });
    parented.metadata.parent_ids = [first];
    const second = String(
      (await client.createCheckpoint({ taskId: "task-1", checkpoint: parented, fence })).checkpointId,
    );
    const patch = { execution_state: { goal: "second, changed" } };
    await client.updateCheckpoint(second, patch, { fence, taskId: "task-1" });
    await written("task-2", "alone");
    const before = await client.getCheckpoint(second);
    await loseStore();
    expect(await client.getTask("task-1")).toBeNull();

    expect(await json("mirror", "restore", "--dry-run")).toMatchObject({ restored: expect.any(Array) });
    expect(await client.getTask("task-1")).toBeNull();
    const report = await json("mirror", "restore", "--task", "task-1", "task-2");
    expect(report).toMatchObject({ exit: 0, checkpoints: 3, findings: [], kept: [] });
    expect(report.restored).toEqual(["task-1", "task-2"]);

    const after = await client.getCheckpoint(second);
    expect(after?.execution_state).toEqual(before?.execution_state);
    expect(after?.metadata).toMatchObject({ version: 1, seq: 2, parent_ids: [first] });
    expect(after?.compliance.imported_from).toMatchObject({
      hash: before?.compliance.hash,
      replaced: { version: 2, seq: 2, parent_ids: [first] },
    });
    const { entries } = await client.getAudit("task-1");
    expect(JSON.parse(entries[0]!.entry)).toMatchObject({ op: "import_begin", source: "mirror" });
    await expect(written("task-1", "from the dead", fence)).rejects.toMatchObject({ code: "FENCED" });
    const { exit, out } = await fleet("resume", "task-1");
    expect([exit, out]).toEqual([0, expect.stringContaining("second, changed")]);
    const next = await client.takeTask("task-1");
    expect(next.fence).toBeGreaterThan(Number(fence) + 1);
    await written("task-1", "third", Number(next.fence));
    expect(await json("mirror", "restore", "--task", "task-1", "task-2")).toMatchObject({
      exit: 0,
      restored: [],
      identical: ["task-1", "task-2"],
      checkpoints: 0,
    });
    expect(await json("mirror", "verify")).toMatchObject({ exit: 0, findings: [] });
    await areSound("task-1", "task-2");
    expect((await fleet("audit", "verify", "task-1")).exit).toBe(0);
  });

  test("an active mission comes back with its sorties, and its coordinator resumes it", async () => {
    const mission = client.mission("msn-1");
    await mission.start({ title: "Add authentication" });
    await mission.addSorties([{ title: "routes", assignedTo: "specialist-1" }, { title: "tests" }]);
    await mission.updateSortie("srt-001", { status: "in_progress" });
    await mission.updateSortie("srt-001", { status: "completed" });
    await mission.checkpoint({ note: "half of it" });
    await loseStore();
    expect(await json("mirror", "restore", "--task", "msn-1")).toMatchObject({
      restored: ["msn-1"],
      missions: ["msn-1"],
    });
    const { sorties } = await mission.sorties();
    expect(sorties.map(({ title, status }) => [title, status])).toEqual([
      ["routes", "completed"],
      ["tests", "pending"],
    ]);
    expect(await mission.state()).toMatchObject({ title: "Add authentication" });
    const { exit, out } = await fleet("resume", "--mission", "msn-1", "--yes");
    expect([exit, out]).toEqual([0, expect.stringContaining("Mission resumed")]);
    expect(await json("mirror", "restore", "--task", "msn-1")).toMatchObject({
      identical: ["msn-1"],
      missions: [],
    });
  });

  test("a restoration that is killed is repeated, and ends whole", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 80; n += 1) ids.push(await written("long", `n ${n}`));
    await loseStore();
    const child = spawn(process.execPath, ["services/cli/main.ts", "mirror", "restore", "--task", "long"], {
      cwd: projectRoot,
      env: { ...process.env, ...environment() },
      stdio: "ignore",
    });
    const imported = async () => (await client.getTask("long"))?.origin?.imported ?? 0;
    await expect.poll(imported, { timeout: 60_000, interval: 5 }).toBeGreaterThan(0);
    child.kill("SIGKILL");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    const then = await imported();
    expect(then).toBeLessThan(ids.length);
    await server.kill9();
    await server.start();
    expect(await json("mirror", "restore", "--task", "long")).toMatchObject({
      exit: 0,
      continued: ["long"],
      findings: [],
    });
    expect(await client.getTask("long")).toMatchObject({ seq: 80, latest_id: ids.at(-1) });
    await areSound("long");
  });

  test("missing, edited and foreign files are left out and named; references to them too", async () => {
    const ids = [
      await written("harmed", "kept"),
      await written("harmed", "lost"),
      await written("harmed", "edited"),
    ];
    const last = input({ goal: "last" });
    last.metadata.parent_ids = [ids[1]!];
    ids.push(String((await client.createCheckpoint({ taskId: "harmed", checkpoint: last })).checkpointId));
    const other = await written("other", "other");
    await written("trail", "first");
    await written("trail", "second");
    await loseStore();
    rmSync(file("harmed", ids[1]!));
    const edited = file("harmed", ids[2]!);
    writeFileSync(edited, readFileSync(edited, "utf8").replace("edited", "forged"));
    copyFileSync(file("other", other), file("harmed", other));
    const trail = join(server.home, "checkpoints", "trail", "audit.jsonl");
    writeFileSync(trail, readFileSync(trail, "utf8").replace('"op":"create"', '"op":"create "'));
    const { exit, restored, findings } = await json("mirror", "restore", "--task", "harmed", "trail");
    expect([exit, restored]).toEqual([8, ["harmed"]]);
    expect(findings).toEqual(
      expect.arrayContaining([
        { task_id: "harmed", checkpoint_id: ids[1], problem: "its file is missing" },
        expect.objectContaining({ checkpoint_id: ids[2] }),
        expect.objectContaining({ checkpoint_id: other }),
        expect.objectContaining({ task_id: "trail", checkpoint_id: null }),
      ]),
    );
    const { checkpoints } = await client.getCheckpointHistory("harmed", { order: "oldest" });
    expect(checkpoints.map(({ execution_state }) => execution_state.goal)).toEqual(["kept", "last"]);
    expect(checkpoints[1]?.metadata).toMatchObject({ seq: 2, parent_ids: [] });
    await areSound("harmed");
  });

  test("a task with a lost artifact is left out with the next step, and comes back when its file is stored", async () => {
    const path = join(server.home, "report.txt");
    writeFileSync(path, "the bytes of a report");
    const handle = await client.takeTask("attached");
    const { sha256 } = await handle.attach(path);
    await handle.checkpoint(input({ goal: "with a report" }));
    await loseStore();
    const left = await json("mirror", "restore");
    expect([left.exit, left.restored]).toEqual([8, []]);
    expect(left.findings).toEqual([
      expect.objectContaining({ task_id: "attached", checkpoint_id: null, lost_artifacts: [sha256] }),
    ]);
    const { out } = await fleet("mirror", "restore");
    expect(out).toContain(sha256);
    expect(out).toContain("artifact put FILE");
    expect((await fleet("artifact", "put", path)).exit).toBe(0);
    expect(await json("mirror", "restore")).toMatchObject({ exit: 0, restored: ["attached"], findings: [] });
    await areSound("attached");
  });

  test("a task that the fleet has is never changed, and a file of a newer schema is refused", async () => {
    await written("begun", "before the loss");
    const id = await written("newer", "goal");
    await loseStore();
    await written("begun", "after the loss");
    const restore = () => json("mirror", "restore", "--task", "begun");
    expect(await restore()).toMatchObject({ exit: 0, kept: ["begun"], restored: [], checkpoints: 0 });
    await expect.poll(() => readdirSync(join(server.home, "checkpoints", "begun")).join(" ")).toMatch(ASIDE);
    expect(await restore()).toMatchObject({ exit: 0, kept: ["begun"], restored: [], checkpoints: 0 });
    const { checkpoints } = await client.getCheckpointHistory("begun");
    expect(checkpoints.map(({ execution_state }) => execution_state.goal)).toEqual(["after the loss"]);
    // A fleet of a newer version wrote the file and its trail: both are changed, as far as a test can.
    const { newerTask } = await import("../../harness/records/newer-file.ts");
    newerTask(join(server.home, "checkpoints", "newer"), id);
    const newer = await fleet("mirror", "restore", "--task", "newer");
    expect([newer.exit, newer.err]).toEqual([
      expect.any(Number),
      expect.stringContaining("newer than this program"),
    ]);
    expect(newer.exit).not.toBe(0);
    expect(readdirSync(join(server.home, "checkpoints", "newer"))).toContain(`chk-${id}.json`);
  });
});
