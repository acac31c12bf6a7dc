// `fleet import langgraph`: graphs that ran with the tables of LangGraph's own saver continue with FleetSaver.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FleetSaver } from "../../../shared/sdk/langgraph/saver.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { callCli } from "../../services/cli/call.ts";
import { SqliteFileSaver } from "./sqlite-saver.ts";
import { contentsOf, failingGraph, threadConfig } from "./threads.ts";

const CALLS_MS = 180_000;
const META = { source: "loop", step: 1, parents: {} } as const;

let fleet: TestFleet;
let folder: string;
let files = 0;

const environment = () => ({
  FLEET_URL: fleet.url,
  FLEET_HOME: fleet.home,
  FLEET_SPOOL_DIR: join(fleet.home, "spool"),
});
const run = (...args: string[]) =>
  callCli(["import", "langgraph", ...args, "--timeout", "30s"], { env: environment() });
const newFile = (): string => {
  files += 1;
  return join(folder, `${files}.db`);
};
const saver = async (agent: string, tenant = "default") => new FleetSaver(await fleet.client(agent, tenant));

async function report(...args: string[]) {
  const { exit, out, err } = await run(...args, "--json");
  expect(err).toBe("");
  return { exit, ...JSON.parse(out) };
}

/** `steps` checkpoints, each with a write. */
async function fill(file: SqliteFileSaver, thread: string, steps: number): Promise<void> {
  let config: object = threadConfig(thread);
  for (let n = 1; n <= steps; n += 1) {
    const checkpoint = {
      ...emptyCheckpoint(),
      id: uuid6(n),
      channel_values: { kept: "k", n },
      channel_versions: { kept: 1, n },
    };
    config = await file.put(config, checkpoint, META);
    await file.putWrites(config, [["n", n + 1]], "task-1");
  }
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-langgraph-import-"));
  fleet = await startFleet({ FLEET_GATEWAY_PORT: "-1" });
}, 90_000);
afterAll(async () => {
  await fleet?.stop();
  rmSync(folder, { recursive: true, force: true });
});

describe("fleet import langgraph --sqlite", { timeout: CALLS_MS }, () => {
  test("a graph that failed in one of two steps continues with FleetSaver, and repeats only that step", async () => {
    const path = newFile();
    const file = new SqliteFileSaver(path);
    const runs: string[] = [];
    const before = failingGraph(file, runs, () => true);
    await expect(before.invoke({ untouched: "u" }, threadConfig("order-7"))).rejects.toThrow("not there");
    const there = await contentsOf(file, "order-7");
    file.database.close();
    const bytes = readFileSync(path);

    expect(await report("--sqlite", path, "--dry-run")).toMatchObject({ imported: ["order-7"], entries: 0 });
    const fresh = await saver("graph-1");
    expect(await fresh.getTuple(threadConfig("order-7"))).toBeUndefined();
    const first = await report("--sqlite", path);
    expect(first).toMatchObject({ exit: 0, imported: ["order-7"], refused: [], orphans: 0 });
    expect(await contentsOf(await saver("graph-2"), "order-7")).toEqual(there);
    const again = await report("--sqlite", path);
    expect(again).toMatchObject({ exit: 0, imported: [], identical: ["order-7"], entries: 0 });
    expect(readFileSync(path)).toEqual(bytes);
    expect(readdirSync(folder).filter((name) => name.startsWith("1.db"))).toEqual(["1.db"]);

    runs.length = 0;
    const after = failingGraph(fresh, runs, () => false);
    const { done, seen, bytes: raw, untouched } = await after.invoke(null, threadConfig("order-7"));
    expect(runs).toEqual(["right", "last"]);
    expect(done).toEqual(["first", "left", "right", "last"]);
    expect([seen, raw, untouched]).toEqual([new Set(["ü"]), { raw: new Uint8Array([0, 255]) }, "u"]);
    const client = await fleet.client("auditor", "default", { role: "orchestrator" });
    expect(await client.verifyAudit("langgraph-order-7", { deadlineMs: 30_000 })).toMatchObject({ ok: true });
    expect(await report("--sqlite", path)).toMatchObject({ identical: ["order-7"], entries: 0 });
  });

  test("what a live program adds to its file is added by the next import", async () => {
    const path = newFile();
    const file = new SqliteFileSaver(path);
    await fill(file, "live", 2);
    // The file is open, and the newest rows are only in its log.
    expect(readdirSync(folder)).toContain(`${files}.db-wal`);
    expect(await report("--sqlite", path)).toMatchObject({ imported: ["live"], entries: 4 });
    const newest = await file.getTuple(threadConfig("live"));
    const checkpoint = { ...newest!.checkpoint, id: uuid6(9), channel_versions: { kept: 1, n: 9 } };
    await file.put(newest!.config, checkpoint, META);
    expect(await report("--sqlite", path)).toMatchObject({ continued: ["live"], imported: [], entries: 1 });
    expect(await contentsOf(await saver("live-1"), "live")).toEqual(await contentsOf(file, "live"));
    file.database.close();
  });

  test("a command that is killed and repeated stores what one import stores", async () => {
    const path = newFile();
    const file = new SqliteFileSaver(path);
    await fill(file, "long", 50);
    file.database.close();
    expect(await report("--sqlite", path, "--tenant", "whole")).toMatchObject({ exit: 0, entries: 100 });
    const client = await fleet.client("counter");
    const count = async () => (await client.getTask("langgraph-long"))?.seq ?? 0;
    const child = spawn(process.execPath, ["services/cli/main.ts", "import", "langgraph", "--sqlite", path], {
      cwd: projectRoot,
      env: { ...process.env, ...environment() },
      stdio: "ignore",
    });
    const exited = once(child, "exit");
    await expect.poll(count, { timeout: 60_000, interval: 1 }).toBeGreaterThan(3);
    child.kill("SIGKILL");
    await exited;
    // The importer owns what it has not finished.
    await expect(
      (await saver("early")).put(threadConfig("long"), emptyCheckpoint(), META, {}),
    ).rejects.toMatchObject({
      code: "CONFLICT",
    });
    expect(await report("--sqlite", path)).toMatchObject({ exit: 0 });
    expect(await count()).toBe(100);
    const whole = await contentsOf(await saver("reader-1", "whole"), "long");
    expect(await contentsOf(await saver("reader-2"), "long")).toEqual(whole);
    expect(whole).toHaveLength(50);
  });

  test.each([
    [
      "bytes that are no JSON",
      "UPDATE checkpoints SET checkpoint = x'00ff' WHERE thread_id = 'bad'",
      "no JSON",
    ],
    [
      "the type of another serializer",
      "UPDATE checkpoints SET type = 'pickle' WHERE thread_id = 'bad'",
      "pickle",
    ],
    ["no metadata", "UPDATE checkpoints SET metadata = NULL WHERE thread_id = 'bad'", "metadata"],
    [
      "another id",
      "UPDATE checkpoints SET checkpoint_id = 'other' WHERE checkpoint_id = (SELECT min(checkpoint_id) FROM checkpoints WHERE thread_id = 'bad')",
      "it holds the checkpoint",
    ],
    ["a damaged write", "UPDATE writes SET value = x'7b' WHERE thread_id = 'bad'", "no JSON"],
    ["an index that is no number", "UPDATE writes SET idx = 'x' WHERE thread_id = 'bad'", "idx"],
    [
      "more than a checkpoint can hold",
      "UPDATE writes SET value = '\"' || hex(zeroblob(500000)) || '\"' WHERE thread_id = 'bad'",
      "at most 1000000",
    ],
  ])(
    "a thread with %s is reported and left out, and the others are imported",
    async (name, damage, problem) => {
      const path = newFile();
      const file = new SqliteFileSaver(path);
      await fill(file, "bad", 2);
      await fill(file, "good", 1);
      file.database.exec(damage);
      file.database.close();
      const tenant = `damage-${files}`;
      const found = await report("--sqlite", path, "--tenant", tenant);
      expect([name, found]).toEqual([
        name,
        expect.objectContaining({
          exit: 8,
          imported: ["good"],
          refused: [{ thread: "bad", row: expect.any(String), problem: expect.stringContaining(problem) }],
        }),
      ]);
      expect(await (await fleet.client("looker", tenant)).getTask("langgraph-bad")).toBeNull();
      expect(await contentsOf(await saver("looker", tenant), "good")).toHaveLength(1);
    },
  );

  test("writes without their checkpoint are left out and counted", async () => {
    const path = newFile();
    const file = new SqliteFileSaver(path);
    await fill(file, "cut", 2);
    file.database.exec(
      "DELETE FROM checkpoints WHERE checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints)",
    );
    file.database.close();
    expect(await report("--sqlite", path)).toMatchObject({
      exit: 0,
      imported: ["cut"],
      entries: 2,
      orphans: 1,
    });
  });

  test("a thread that differs in the fleet, or that another agent owns, stops the whole import", async () => {
    const path = newFile();
    const file = new SqliteFileSaver(path);
    await fill(file, "differs", 1);
    await fill(file, "free", 1);
    file.database.close();
    const own = await saver("owner-1");
    await own.put(threadConfig("differs"), { ...emptyCheckpoint(), id: uuid6(1) }, META, {});
    const refused = await run("--sqlite", path);
    expect([refused.exit, refused.err]).toEqual([5, expect.stringContaining("--skip-existing")]);
    expect(await (await saver("looker")).getTuple(threadConfig("free"))).toBeUndefined();
    expect(await report("--sqlite", path, "--skip-existing")).toMatchObject({
      ...{ exit: 0, imported: ["free"], skipped: ["differs"] },
    });
    expect(await contentsOf(own, "differs")).toHaveLength(1);
  });

  test("files that are no database, damaged or of another program are refused", async () => {
    const path = newFile();
    writeFileSync(path, "no database ".repeat(1000));
    expect((await run("--sqlite", path)).exit).toBe(65);
    expect((await run("--sqlite", join(folder, "absent.db"))).exit).toBe(64);
    const other = newFile();
    const file = new SqliteFileSaver(other);
    await fill(file, "torn", 60);
    file.database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    file.database.close();
    const bytes = readFileSync(other);
    bytes.fill(0x55, bytes.length / 2, bytes.length / 2 + 4096);
    writeFileSync(other, bytes);
    expect((await run("--sqlite", other)).exit).toBe(8);
    expect(await (await fleet.client("looker")).getTask("langgraph-torn")).toBeNull();
    const plain = newFile();
    const database = new SqliteFileSaver(plain).database;
    database.exec("ALTER TABLE writes RENAME TO elsewhere");
    database.close();
    const refused = await run("--sqlite", plain);
    expect([refused.exit, refused.err]).toEqual([65, expect.stringContaining("SqliteSaver")]);
  });
});
