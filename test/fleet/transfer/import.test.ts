// Imports between two real fleets: round trips, kills in the middle, tampered files and names that are taken.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { originOf } from "../../../shared/integrity/origin.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import type { withoutHash } from "../../harness/records/imports.ts";
import { input } from "../../harness/records/records.ts";
import { callCli } from "../../services/cli/call.ts";
import { callerEnvironment, commandsOf, json, linesIn } from "./commands.ts";

/** A busy machine takes seconds for each call. */
const CALLS_MS = 180_000;

let source: TestFleet;
let target: TestFleet;
let writer: FleetClient;
let reader: FleetClient;
let folder: string;

const from = commandsOf(() => source);
const into = commandsOf(() => target);
const file = (name: string): string => join(folder, name);

interface Line {
  readonly kind: string;
  readonly hash: string;
  readonly checkpoint: ReturnType<typeof withoutHash>;
  readonly task: Record<string, unknown>;
}

const linesOf = (name: string) => linesIn<Line>(file(name));

/** The versions in a file as their first fleet has them, in one order. */
function originsIn(name: string): unknown[] {
  const versions = linesOf(name).filter(({ kind }) => kind === "checkpoint");
  return versions
    .map(({ hash, checkpoint }) => {
      let origin = { checkpoint, hash };
      for (let next = originOf(checkpoint); next !== null; next = originOf(next.checkpoint)) origin = next;
      return origin;
    })
    .sort(
      (a, b) =>
        a.checkpoint.metadata.seq - b.checkpoint.metadata.seq ||
        a.checkpoint.metadata.version - b.checkpoint.metadata.version,
    );
}

async function scrubbed(fleet: TestFleet): Promise<Record<string, unknown>> {
  return json(callCli(["scrub", "start", "--wait", "--json"], { env: callerEnvironment(fleet) }));
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-import-"));
  [source, target] = await Promise.all([
    startFleet({ FLEET_SCRUB_EVERY: "off" }),
    startFleet({ FLEET_SCRUB_EVERY: "off" }),
  ]);
  writer = await source.client("writer-1");
  reader = await target.client("reader-1");
}, 90_000);
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await Promise.all([source.stop(), target.stop()]);
});

/** A move of an agent on its task. */
const move = fc.oneof(
  fc.record({
    do: fc.constant("create" as const),
    goal: fc.string(),
    phase: fc.constantFrom("planning", "testing", "complete" as const),
  }),
  fc.record({ do: fc.constant("update" as const), goal: fc.string({ unit: "grapheme" }) }),
  fc.record({
    do: fc.constant("finalize" as const),
    status: fc.constantFrom("succeeded", "failed" as const),
  }),
  fc.record({ do: fc.constant("take" as const) }),
  fc.record({ do: fc.constant("handoff" as const) }),
);

async function play(
  taskId: string,
  moves: readonly (typeof move extends fc.Arbitrary<infer M> ? M : never)[],
): Promise<void> {
  let { fence } = await writer.takeTask(taskId);
  let newest = (await writer.createCheckpoint({ taskId, checkpoint: input(), fence })).checkpointId as string;
  for (const one of moves) {
    // The lifecycle refuses some moves, such as a change of a finalized checkpoint.
    await (async () => {
      if (one.do === "create") {
        const checkpoint = input({ goal: one.goal.toWellFormed(), phase: one.phase as "planning" });
        newest = (await writer.createCheckpoint({ taskId, checkpoint, fence })).checkpointId as string;
      } else if (one.do === "update") {
        await writer.updateCheckpoint(
          newest,
          { execution_state: { goal: one.goal.toWellFormed() } },
          { fence, taskId },
        );
      } else if (one.do === "finalize")
        await writer.finalizeCheckpoint(newest, one.status as "failed", { fence, taskId });
      else if (one.do === "take") ({ fence } = await writer.takeTask(taskId));
      else await writer.initiateHandoff(null, { taskId, fence });
    })().catch((error: { code?: string }) => expect(["FINALIZED", "CONFLICT"]).toContain(error.code));
  }
}

describe("fleet import", { timeout: CALLS_MS }, () => {
  test("round trip: export, import and export give the same checkpoints, and both fleets are sound", async () => {
    let n = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(move, { maxLength: 12 }), async (moves) => {
        n += 1;
        await play(`trip-${n}`, moves);
      }),
      { numRuns: 12 },
    );
    const tasks = Array.from({ length: n }, (_, i) => `trip-${i + 1}`);
    expect(await from("export", "--task", ...tasks, "--out", file("there.jsonl"))).toMatchObject({
      exit: 0,
      err: "",
    });
    const report = await json(into("import", file("there.jsonl"), "--json"));
    expect(report).toMatchObject({ exit: 0, continued: [], identical: [], skipped: [] });
    expect(report.imported.toSorted()).toEqual(tasks.toSorted());
    expect(await into("export", "--task", ...tasks, "--out", file("back.jsonl"))).toMatchObject({
      exit: 0,
      err: "",
    });
    const verified = await into("export", "verify", file("back.jsonl"));
    expect([verified.exit, verified.out]).toEqual([0, expect.stringContaining("is whole")]);
    expect(originsIn("back.jsonl")).toEqual(originsIn("there.jsonl"));
    // A third fleet would do as well as another tenant: the first origin is still restored.
    expect(await into("import", file("back.jsonl"), "--tenant", "third")).toMatchObject({ exit: 0, err: "" });
    expect(
      await into("export", "--task", ...tasks, "--tenant", "third", "--out", file("third.jsonl")),
    ).toMatchObject({ exit: 0, err: "" });
    expect(originsIn("third.jsonl")).toEqual(originsIn("there.jsonl"));
    // As the file has it: on a busy machine, the source may find its agent silent meanwhile.
    const exported = linesOf("there.jsonl").filter(({ kind }) => kind === "task");
    for (const task of tasks) {
      const was = exported.find((line) => line.task.task_id === task)?.task;
      const is = await reader.getTask(task);
      expect(is).toMatchObject({
        owner: null,
        handoff_id: null,
        fence: Number(was?.fence) + 1,
        latest_id: was?.latest_id,
        last_successful_id: was?.last_successful_id,
      });
      expect(is?.origin).toMatchObject({
        complete: true,
        fleet: writer.fleetId,
        audit_hash: was?.audit_hash,
      });
      expect(await reader.verifyAudit(task)).toMatchObject({ ok: true });
    }
    expect(await scrubbed(target)).toMatchObject({ exit: 0, findings: [] });
    const again = await json(into("import", file("there.jsonl"), "--json"));
    expect(again).toMatchObject({ exit: 0, imported: [], versions: 0 });
    expect(again.identical).toHaveLength(tasks.length);
  });

  test("continues after SIGKILL of the command and of the fleet, with no version twice", async () => {
    const { fence } = await writer.takeTask("long");
    for (let n = 0; n < 60; n += 1)
      await writer.createCheckpoint({ taskId: "long", checkpoint: input({ goal: `step ${n}` }), fence });
    await from("export", "--task", "long", "--out", file("long.jsonl"));
    for (const victim of ["command", "fleet"] as const) {
      const before = (await reader.getTask("long"))?.origin?.imported ?? 0;
      const child = spawn(process.execPath, ["services/cli/main.ts", "import", file("long.jsonl")], {
        cwd: projectRoot,
        env: { ...process.env, ...callerEnvironment(target) },
        stdio: "ignore",
      });
      const exited = once(child, "exit");
      const imported = async () => (await reader.getTask("long"))?.origin?.imported ?? 0;
      await expect.poll(imported, { timeout: 60_000, interval: 1 }).toBeGreaterThan(before);
      if (victim === "fleet") await target.kill9();
      child.kill("SIGKILL");
      await exited;
      if (victim === "fleet") await target.start();
    }
    await expect
      .poll(
        () =>
          reader.getTask("long").then(
            (task) => task?.origin?.imported ?? 0,
            () => 0,
          ),
        { timeout: 60_000 },
      )
      .toBeGreaterThan(0);
    expect(await json(into("import", file("long.jsonl"), "--json", "--timeout", "30s"))).toMatchObject({
      exit: 0,
    });
    await into("export", "--task", "long", "--out", file("long-back.jsonl"));
    expect(originsIn("long-back.jsonl")).toEqual(originsIn("long.jsonl"));
    expect(await scrubbed(target)).toMatchObject({ exit: 0, findings: [] });
  });

  test("imports nothing of a file with one wrong line, nor over a task of another origin", async () => {
    for (const task of ["first", "second"]) await play(task, []);
    await from("export", "--task", "first", "second", "--out", file("pair.jsonl"));
    const lines = readFileSync(file("pair.jsonl"), "utf8").trimEnd().split("\n");
    const tampered = lines.with(-3, lines.at(-3)!.replace("read the issue", "read the tissue"));
    expect(tampered).not.toEqual(lines);
    writeFileSync(file("tampered.jsonl"), `${tampered.join("\n")}\n`);
    const refused = await into("import", file("tampered.jsonl"));
    expect(refused.exit).toBe(8);
    expect(refused.err).toContain(`line ${lines.length - 2}`);
    expect(await reader.getTask("first")).toBeNull();

    await reader.createCheckpoint({ taskId: "second", checkpoint: input() });
    const taken = await into("import", file("pair.jsonl"));
    expect(taken.exit).toBe(5);
    expect(await reader.getTask("first")).toBeNull();
    expect(
      await json(into("import", file("pair.jsonl"), "--skip-existing", "--dry-run", "--json")),
    ).toMatchObject({ imported: ["first"], dry_run: true });
    expect(await reader.getTask("first")).toBeNull();
    expect(await json(into("import", file("pair.jsonl"), "--skip-existing", "--json"))).toMatchObject({
      exit: 0,
      imported: ["first"],
      skipped: ["second"],
    });
    expect((await reader.getTask("second"))?.origin).toBeNull();
  });

  test("refuses a file that is cut, reordered, repeated or not JSON, and writes nothing", async () => {
    for (const task of ["cut", "other"]) await play(task, [{ do: "create", goal: "x", phase: "testing" }]);
    await from("export", "--task", "cut", "other", "--out", file("sound.jsonl"));
    const lines = readFileSync(file("sound.jsonl"), "utf8").trimEnd().split("\n");
    const damaged = {
      "cut at a line": lines.slice(0, -1),
      "cut in a line": [...lines.slice(0, -1), lines.at(-1)!.slice(0, 20)],
      "without a line": lines.toSpliced(2, 1),
      "two lines exchanged": lines.with(2, lines[3]!).with(3, lines[2]!),
      "a line twice": lines.toSpliced(3, 0, lines[3]!),
      "bytes that are no JSON": lines.with(4, "\u0000{"),
      "lines after its end": [...lines, lines.at(-1)!],
      "no line": [],
    };
    for (const [name, content] of Object.entries(damaged)) {
      writeFileSync(file("damaged.jsonl"), content.map((line) => `${line}\n`).join(""));
      const refused = await into("import", file("damaged.jsonl"));
      expect([name, refused.exit, refused.err]).toEqual([name, 8, expect.stringMatching(/line \d+/)]);
    }
    for (const command of [["import"], ["export", "verify"]]) {
      const { exit, err } = await into(...command, folder);
      expect([exit, err]).toEqual([64, expect.stringContaining(`${folder} cannot be used: EISDIR`)]);
    }
    for (const task of ["cut", "other"]) expect(await reader.getTask(task)).toBeNull();
  });

  test("two imports of one file at once write every version once", async () => {
    await play(
      "raced",
      Array.from({ length: 12 }, (_, n) => ({ do: "create", goal: `step ${n}`, phase: "testing" }) as const),
    );
    await from("export", "--task", "raced", "--out", file("raced.jsonl"));
    const both = await Promise.all([
      into("import", file("raced.jsonl")),
      into("import", file("raced.jsonl")),
    ]);
    const exits = both.map(({ exit }) => exit);
    expect(exits).toContain(0);
    for (const exit of exits) expect([0, 5]).toContain(exit);
    expect((await reader.getTask("raced"))?.origin).toMatchObject({ complete: true, imported: 13 });
    await into("export", "--task", "raced", "--out", file("raced-back.jsonl"));
    expect(originsIn("raced-back.jsonl")).toEqual(originsIn("raced.jsonl"));
    expect(await json(into("import", file("raced.jsonl"), "--json"))).toMatchObject({
      exit: 0,
      identical: ["raced"],
    });
  });

  test("is for operators, and an agent continues the imported task", async () => {
    await play("handed", [{ do: "create", goal: "carry the work further", phase: "testing" }]);
    await from("export", "--task", "handed", "--out", file("handed.jsonl"));
    expect(await into("access", "issue", "--agent", "coder-9", "--out", file("coder-9.creds"))).toMatchObject(
      { exit: 0 },
    );
    const env = {
      ...callerEnvironment(target),
      FLEET_NATS_CREDS: file("coder-9.creds"),
      FLEET_AGENT_ID: "coder-9",
    };
    expect((await callCli(["import", file("handed.jsonl")], { env })).exit).toBe(77);
    expect(await reader.getTask("handed")).toBeNull();
    expect(await into("import", file("handed.jsonl"))).toMatchObject({ exit: 0, err: "" });
    const handle = await reader.takeTask("handed");
    const resumed = await handle.resume();
    expect(resumed?.execution_state.goal).toBe("carry the work further");
    expect(await handle.checkpoint(input({ goal: "continued" }))).toMatchObject({
      outcome: "committed",
      seq: 3,
    });
  });
});
