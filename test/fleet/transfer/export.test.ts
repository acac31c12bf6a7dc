// Exports of a real fleet: whole, interrupted at every byte that matters, verified, and tampered with.

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { input } from "../../harness/records/records.ts";
import { clear, fill, smallDisk } from "../../harness/small-disk.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

/** A line whose members are known to the test alone. */
// biome-ignore lint/suspicious/noExplicitAny: each kind of line has other members.
type Tampered = any;

/** A busy machine takes seconds for each call. */
const CALLS_MS = 120_000;

let server: TestFleet;
let client: FleetClient;
let folder: string;

const environment = () => ({
  FLEET_URL: server.url,
  FLEET_HOME: server.home,
  FLEET_SPOOL_DIR: join(server.home, "spool"),
});
const fleet = (...args: string[]): Promise<Result> => callCli(args, { env: environment() });
const file = (name: string): string => join(folder, name);
const linesOf = (name: string): Record<string, unknown>[] =>
  readFileSync(file(name), "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));

async function writeTask(task: string, checkpoints: number): Promise<void> {
  const handle = await client.takeTask(task);
  for (let n = 0; n < checkpoints; n += 1) {
    const made = await client.createCheckpoint({
      taskId: task,
      checkpoint: input({ goal: `goal ${n} of ${task} – ünïcode` }),
      fence: handle.fence,
    });
    if (n % 2 === 0) {
      const patch = { execution_state: { progress_percent: n } };
      await client.updateCheckpoint(String(made.checkpointId), patch, { fence: handle.fence });
    }
  }
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-export-"));
  server = await startFleet();
  client = await server.client("writer-1");
  for (const [task, n] of [
    ["alpha", 3],
    ["beta", 25],
    ["gamma", 2],
  ] as const)
    await writeTask(task, n);
  const latest = (await client.latest("gamma")).checkpoint;
  await client.finalizeCheckpoint(String(latest?.metadata.checkpoint_id), "failed", { fence: 1 });
  await client.initiateHandoff(null, { taskId: "alpha", fence: 1, reason: "the context is full" });
}, 60_000);
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await server.stop();
});

describe("fleet export", { timeout: CALLS_MS }, () => {
  test("writes every version, entry and handoff of a task into a private file that verifies", async () => {
    const made = await fleet(
      "export",
      "--task",
      "alpha",
      "--task",
      "beta",
      "--out",
      file("two.jsonl"),
      "--json",
    );
    expect(made).toMatchObject({ exit: 0, err: "" });
    expect(JSON.parse(made.out)).toMatchObject({
      tenant: "default",
      tasks: 2,
      lost: 0,
      handoffs: 1,
      versions: 5 + 38,
    });
    expect(statSync(file("two.jsonl")).mode & 0o777).toBe(0o600);
    const lines = linesOf("two.jsonl");
    expect(lines[0]).toMatchObject({
      kind: "header",
      format: 6,
      fleet: client.fleetId,
      scope: { tasks: ["alpha", "beta"] },
    });
    expect(lines.at(-1)).toMatchObject({ kind: "trailer", tasks: 2, lines: lines.length - 1 });
    const verified = await fleet("export", "verify", file("two.jsonl"), "--json");
    expect(verified).toMatchObject({ exit: 0, err: "" });
    expect(JSON.parse(verified.out)).toMatchObject({ ok: true, tasks: 2, versions: 43 });
  });

  test("writes the same lines to standard output, and refuses to replace a file", async () => {
    const printed = await fleet("export", "--task", "gamma");
    expect(printed).toMatchObject({ exit: 0, err: "" });
    writeFileSync(file("printed.jsonl"), printed.out);
    expect((await fleet("export", "verify", file("printed.jsonl"))).out).toContain("is whole");
    const again = await fleet("export", "--all", "--out", file("printed.jsonl"));
    expect(again.exit).toBe(64);
    expect(again.err).toContain("--resume");
    expect(readFileSync(file("printed.jsonl"), "utf8")).toBe(printed.out);
  });

  test("exports the tasks that changed since a time, and no file for a task that does not exist", async () => {
    const since = (await client.getTask("gamma"))?.updated_at as string;
    await fleet("export", "--since", since, "--out", file("since.jsonl"));
    const tasks = linesOf("since.jsonl").flatMap(({ kind, task_id }) =>
      kind === "task_end" ? [task_id] : [],
    );
    expect(tasks).toContain("gamma");
    expect(tasks).not.toContain("beta");
    expect(await fleet("export", "--task", "nothing", "--out", file("none.jsonl"))).toMatchObject({
      exit: 4,
    });
    expect(() => statSync(file("none.jsonl"))).toThrow("ENOENT");
    expect(await fleet("export")).toMatchObject({ exit: 64 });
  });

  test("continues a file that ends at any byte, to the same lines as an uninterrupted one", async () => {
    await fleet("export", "--task", "alpha", "gamma", "--out", file("whole.jsonl"));
    const whole = readFileSync(file("whole.jsonl"));
    const feeds = [...whole.keys()].filter((at) => whole[at] === 0x0a);
    const places = [
      feeds[0]! + 1,
      feeds[0]! + 40,
      feeds[3]! + 1,
      feeds[3]!,
      feeds.at(-3)! + 1,
      feeds.at(-2)! + 1,
      whole.length - 1,
      whole.length,
    ];
    for (const place of places) {
      writeFileSync(file("cut.jsonl"), whole.subarray(0, place), { mode: 0o644 });
      expect(await fleet("export", "--resume", "--out", file("cut.jsonl"))).toMatchObject({
        exit: 0,
        err: "",
      });
      expect(readFileSync(file("cut.jsonl")).equals(whole)).toBe(true);
      expect(statSync(file("cut.jsonl")).mode & 0o777).toBe(0o600);
    }
    writeFileSync(file("cut.jsonl"), whole.subarray(0, 20));
    const empty = await fleet("export", "--resume", "--out", file("cut.jsonl"));
    expect(empty).toMatchObject({ exit: 64 });
  });

  test("continues after SIGKILL in the middle of a write", async () => {
    const path = file("killed.jsonl");
    const child = spawn(process.execPath, ["services/cli/main.ts", "export", "--all", "--out", path], {
      cwd: projectRoot,
      env: { ...process.env, ...environment() },
      stdio: "ignore",
    });
    const sizeOf = (): number => {
      try {
        return statSync(path).size;
      } catch {
        return 0;
      }
    };
    const exited = once(child, "exit");
    await expect
      .poll(() => sizeOf() > 2_000 || child.exitCode !== null, { interval: 1, timeout: 60_000 })
      .toBe(true);
    child.kill("SIGKILL");
    await exited;
    // A part of a line, as a crash of the machine can leave it.
    if ((await fleet("export", "verify", path)).exit !== 0) appendFileSync(path, '{"kind":"audi');
    expect(await fleet("export", "--resume", "--out", path)).toMatchObject({ exit: 0, err: "" });
    const report = await fleet("export", "verify", path, "--json");
    expect(JSON.parse(report.out)).toMatchObject({ ok: true, tasks: 3 });
  });

  test("holds one moment of a task that is written during the export", async () => {
    let isDone = false;
    const writing = (async () => {
      for (let n = 0; !isDone; n += 1)
        await client.createCheckpoint({ taskId: "beta", checkpoint: input({ goal: `more ${n}` }), fence: 1 });
    })();
    for (let n = 0; n < 3; n += 1) {
      expect(await fleet("export", "--task", "beta", "--out", file(`moving-${n}.jsonl`))).toMatchObject({
        exit: 0,
        err: "",
      });
      expect(await fleet("export", "verify", file(`moving-${n}.jsonl`))).toMatchObject({ exit: 0 });
    }
    isDone = true;
    await writing;
  });

  test("without a fleet there is no file, and the same call succeeds afterwards", async () => {
    const url = "nats://127.0.0.1:1";
    const calls = [["--all"], ["--since", "7d"], ["--task", "gamma"]];
    for (const [i, scope] of calls.entries()) {
      const path = file(`down-${i}.jsonl`);
      const call = ["export", ...scope, "--out", path];
      expect((await fleet(...call, "--url", url, "--timeout", "500ms")).exit).toBe(69);
      expect(existsSync(path)).toBe(false);
      expect(await fleet(...call)).toMatchObject({ exit: 0, err: "" });
    }
  });

  test("a disk that is full is named, and the export continues when it has room", async (context) => {
    const disk = smallDisk(1, context);
    // Room for the first task alone.
    fill(disk, 0.04);
    const path = join(disk, "all.jsonl");
    const stopped = await fleet("export", "--task", "alpha", "beta", "--out", path);
    expect([stopped.exit, stopped.err]).toEqual([69, expect.stringContaining("ENOSPC")]);
    expect(stopped.err).toContain(`export --resume --out ${path}`);
    clear(disk);
    expect(await fleet("export", "--resume", "--out", path)).toMatchObject({ exit: 0, err: "" });
    expect((await fleet("export", "verify", path)).exit).toBe(0);
  });

  test("finds every tampered line, with its number", async () => {
    await fleet("export", "--task", "alpha", "--out", file("sound.jsonl"));
    const lines = readFileSync(file("sound.jsonl"), "utf8").trimEnd().split("\n");
    const at = (kind: string): number => lines.findIndex((line) => JSON.parse(line).kind === kind);
    const edit = (kind: string, change: (value: Tampered) => void): [number, string[]] => {
      const value = JSON.parse(lines[at(kind)]!);
      change(value);
      return [at(kind) + 1, lines.with(at(kind), JSON.stringify(value))];
    };
    const cases: Record<string, [number | null, string[]]> = {
      "another goal": edit("checkpoint", ({ checkpoint }) => (checkpoint.execution_state.goal = "forged")),
      "a forged hash": edit("checkpoint", (line) => (line.hash = "0".repeat(64))),
      "an audit entry of another actor": [
        null,
        lines.with(at("audit"), lines[at("audit")]!.replaceAll("writer-1", "writer-2")),
      ],
      "a line twice": [at("checkpoint") + 2, lines.toSpliced(at("checkpoint"), 0, lines[at("checkpoint")]!)],
      "a line less": [null, lines.toSpliced(at("checkpoint"), 1)],
      "a name that leaves the folder": edit("task", ({ task }) => (task.task_id = "../../etc/passwd")),
      "another owner in the head": [null, edit("task", ({ task }) => (task.owner = "mallory"))[1]],
      "a task twice": [null, [...lines.slice(0, -1), ...lines.slice(1)]],
      "a repeated name": [1, lines.with(0, lines[0]!.replace("{", '{"format":1,'))],
      "no JSON": [2, lines.with(1, "not json")],
      "no trailer": [lines.length, lines.slice(0, -1)],
      "a line after the trailer": [lines.length + 1, [...lines, lines.at(-1)!]],
      "an endless line": [2, [lines[0]!, "x".repeat(1_500_001)]],
      "a prototype": [2, lines.with(1, lines[1]!.replace("{", '{"__proto__":{"admin":true},'))],
    };
    for (const [name, [line, edited]] of Object.entries(cases)) {
      writeFileSync(file("tampered.jsonl"), `${edited.join("\n")}\n`);
      const { exit, out } = await fleet("export", "verify", file("tampered.jsonl"), "--json");
      const report = JSON.parse(out);
      expect([name, exit, report.ok]).toEqual([name, 8, false]);
      if (line !== null) expect([name, report.line]).toEqual([name, line]);
    }
    const [, newer] = edit("header", (line) => Object.assign(line, { format: 7, tool: "9.1.0" }));
    writeFileSync(file("newer.jsonl"), `${newer.join("\n")}\n`);
    for (const args of [["export", "verify"], ["import"]]) {
      const { exit, err } = await fleet(...args, file("newer.jsonl"), "--json");
      expect([args, exit]).toEqual([args, 10]);
      expect(JSON.parse(err).error).toMatchObject({
        code: "UNSUPPORTED_VERSION",
        fields: [{ path: "format", expected: "at most 6", got: "7" }],
        hint: expect.stringContaining("Fleet 9.1.0"),
      });
    }
  });
});
