// The `fleet` command as operators and scripts use it, against a standalone fleet. At the end the fleet is stopped, damaged
// on disk and started again, to check the reports of the command.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { decode, encode } from "../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../shared/records/kv/keyspace.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import { type Call, type Result, resultOf, startCli } from "../../services/cli/process.ts";

const CHK = /^chk-[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** A busy machine takes seconds for each call. */
const CALLS_MS = 90_000;

let server: TestFleet;
let client: FleetClient;

function callOf({ env = {}, ...call }: Call): Call {
  const own = {
    FLEET_URL: server.url,
    FLEET_HOME: server.home,
    FLEET_SPOOL_DIR: join(server.home, "spool"),
    FLEET_AGENT_ID: "tester",
  };
  return { ...call, env: { ...own, ...env } };
}

const fleet = (args: readonly string[], call: Call = {}): Promise<Result> => callCli(args, callOf(call));

/** The same in a process, for a call that could start a fleet in this one. */
const fleetProcess = (args: readonly string[], call: Call = {}): Promise<Result> =>
  resultOf(startCli(args, callOf(call)));

/** The JSON answer of a call that must succeed and print nothing on standard error. */
async function json(...args: string[]) {
  const { exit, out, err } = await fleet([...args, "--json"]);
  expect({ exit, err }).toEqual({ exit: 0, err: "" });
  return JSON.parse(out);
}

/** Writes a checkpoint through the SDK. */
async function written(task: string, progress = 0): Promise<string> {
  const outcome = await client.createCheckpoint({
    taskId: task,
    checkpoint: {
      metadata: { agent_type: "qa" },
      execution_state: { phase: "testing", progress_percent: progress },
    },
  });
  return `chk-${outcome.checkpointId}`;
}

beforeAll(async () => {
  server = await startFleet({ FLEET_MIRROR_DIR: "off" });
  client = await server.client();
});

afterAll(() => server.stop());

describe("writing", { timeout: CALLS_MS }, () => {
  test("a checkpoint from options is printed and stored", async () => {
    const { exit, out, err } = await fleet([
      ...[
        "checkpoint",
        "--task",
        "write",
        "--type",
        "implementation",
        "--phase",
        "implementing",
        "--goal",
        "Log in",
      ],
      ...[
        "--completed",
        "Login",
        "Logout",
        "--blocked",
        "Deploy because the key is missing",
        "--progress",
        "50",
      ],
      ...["--next", "Run the tests", "--note", "Before refactoring", "--label", "team=a", "--agent", "alice"],
      // The first command of a fleet; after a late answer it would be queued.
      ...["--timeout", "20s"],
    ]);
    expect({ exit, err }).toEqual({ exit: 0, err: "" });
    const id = /^Checkpoint created: (\S+)$/m.exec(out)?.[1] ?? "";
    expect(id).toMatch(CHK);
    expect(out).toContain("Task: write\n");
    expect(out).toContain("Progress: 50%\nItems: 2 completed, 0 pending, 1 blocked\n");
    const stored = await json("checkpoint", "show", id);
    expect(stored.metadata).toMatchObject({
      checkpoint_id: id.slice("chk-".length),
      agent_id: "alice",
      labels: { team: "a" },
      trigger: { reason: "manual", details: "Before refactoring" },
    });
    expect(stored.execution_state).toMatchObject({
      completed_items: [{ title: "Login" }, { title: "Logout" }],
      blocked_items: [{ title: "Deploy", blocker: "the key is missing" }],
    });
  });

  test("--lint advises on standard error, and the checkpoint is written with its reason", async () => {
    const create = ["checkpoint", "-t", "linted", "--type", "qa", "--phase", "testing", "--lint"];
    const { exit, out, err } = await fleet([
      ...[...create, "--completed", "Login", "--next", "Run the tests", "--reason", "phase_transition"],
      ...["--timeout", "20s"],
    ]);
    expect(exit).toBe(0);
    expect(err).toContain("warning: completed_items.0: a completed item is in the past tense; for example");
    expect(err).toContain("warning: resume_pointer.next_action: the next action names no file");
    expect(err).not.toContain("path=");
    const id = /^Checkpoint created: (\S+)$/m.exec(out)?.[1] ?? "";
    expect((await json("checkpoint", "show", id)).metadata.trigger.reason).toBe("phase_transition");
  });

  test("a document comes from a file, a pipe or a redirect, and options win over it", async () => {
    const body = {
      metadata: { task_id: "doc", agent_type: "qa", agent_id: "author" },
      execution_state: { phase: "testing" },
    };
    const path = join(server.home, "checkpoint.json");
    await writeFile(path, JSON.stringify(body));
    const env = { FLEET_AGENT_ID: "" };
    const file = await fleet(["checkpoint", "--file", path, "--phase", "reviewing", "--json"], { env });
    const pipe = await fleet(["checkpoint", "-q"], { input: JSON.stringify(body), env });
    const dash = await fleet(["checkpoint", "-q", "-f", "-"], { input: JSON.stringify(body), env });
    expect([file.exit, pipe.exit, dash.exit], file.err + pipe.err + dash.err).toEqual([0, 0, 0]);
    expect(JSON.parse(file.out)).toMatchObject({ status: "committed", task_id: "doc", version: 1, seq: 1 });
    const { checkpoints } = await json("checkpoint", "history", "doc", "--order", "oldest");
    expect(
      checkpoints.map((one: { execution_state: { phase: string } }) => one.execution_state.phase),
    ).toEqual(["reviewing", "testing", "testing"]);
    expect(checkpoints[0].metadata.agent_id).toBe("author");
  });

  test("a repeated command id is applied once", async () => {
    const id = "01900000-0000-7000-8000-00000000c11a";
    const call = (as: string) =>
      fleet(["checkpoint", "-q", "-t", "again", "--type", "qa", "--phase", "testing", "--command-id", as]);
    expect(await call(id)).toEqual({ exit: 0, out: `chk-${id}\n`, err: "" });
    expect(await call(`chk-${id.toUpperCase()}`)).toEqual({ exit: 0, out: `chk-${id}\n`, err: "" });
    expect((await json("task", "show", "again")).seq).toBe(1);
  });

  test("a misspelled field in a patch is reported, and the patch is sent unchanged", async () => {
    const id = await written("slip");
    const patch = '{"execution_state":{"pahse":"reviewing"}}';
    const { exit, err } = await fleet(["checkpoint", "update", id, "-q", "--patch", patch]);
    expect({ exit, err }).toEqual({
      exit: 0,
      err: "warning: unknown field, did you mean phase? (field=execution_state.pahse)\n",
    });
    expect((await json("checkpoint", "show", id)).execution_state).toMatchObject({ pahse: "reviewing" });
  });

  test("a finalized checkpoint cannot be changed after update, link and finalize", async () => {
    const parent = await written("life");
    const child = await written("life");
    const other = await written("life");
    const updated = await fleet([
      "checkpoint",
      "update",
      parent,
      "--patch",
      '{"execution_state":{"progress_percent":75}}',
    ]);
    expect(updated.out).toContain(`Checkpoint updated: ${parent}\nTask: life\nVersion: 2,`);
    const patch = join(server.home, "patch.json");
    await writeFile(patch, '{"execution_state":{"progress_percent":null}}');
    expect(
      (
        await fleet(["checkpoint", "update", parent, "-q", "--patch", `@${patch}`, "--expected-version", "2"])
      ).out.trim(),
    ).toBe(parent);
    expect(
      (await json("checkpoint", "show", parent, "--version", "2")).execution_state.progress_percent,
    ).toBe(75);
    expect((await json("checkpoint", "show", parent)).execution_state).not.toHaveProperty("progress_percent");
    await json("checkpoint", "link", parent, other);
    expect(
      (await json("checkpoint", "show", other)).metadata.parent_ids.map((id: string) => `chk-${id}`).sort(),
    ).toEqual([parent, child].sort());
    const finalized = await fleet([
      "checkpoint",
      "finalize",
      parent,
      "--status",
      "succeeded",
      "--retention",
      "P30D",
    ]);
    expect(finalized.out).toContain(`Checkpoint finalized: ${parent}`);
    const late = await fleet([
      "checkpoint",
      "update",
      parent,
      "--patch",
      '{"metadata":{"iteration":2}}',
      "--json",
    ]);
    expect(late).toMatchObject({ exit: 6, out: "" });
    expect(JSON.parse(late.err)).toMatchObject({ error: { code: "FINALIZED", retryable: false } });
  });
});

describe("reading", { timeout: CALLS_MS }, () => {
  test("the command below each page shows the next one", async () => {
    const ids: string[] = [];
    for (const n of [1, 2, 3]) ids.unshift(await written("pages", n));
    const seen: string[] = [];
    let args = ["checkpoint", "list", "--task", "pages", "--limit", "2"];
    for (let pages = 0; args.length > 0 && pages < 3; pages += 1) {
      const { out } = await fleet(args);
      seen.push(...(out.match(/^chk-\S+/gm) ?? []));
      args = /^ {2}(?:npx )?fleet (.*)$/m.exec(out)?.[1]?.split(" ") ?? [];
    }
    expect(seen).toEqual(ids);
    const history = await fleet(["checkpoint", "history", "pages"]);
    expect(history.out).toMatch(new RegExp(`#3 +${ids[0]}.*\\n│ +from ${ids[1]}\\n`));
    expect((await fleet(["checkpoint", "show", ids[0]!])).out).toContain(
      `Checkpoint: ${ids[0]}\nTask: pages\n`,
    );
  });

  test("a search finds by words, agent and time, and waits for a position", async () => {
    const { position } = await json(
      ...["checkpoint", "--task", "find", "--type", "qa", "--phase", "testing", "--goal", "A rare zebra"],
    );
    const search = (...filters: string[]) => json("checkpoint", "search", "--wait-for", position, ...filters);
    expect((await search("--text", "zebra", "--from", "1h")).checkpoints).toHaveLength(1);
    expect((await search("--text", "zebra", "--agent", "nobody")).checkpoints).toEqual([]);
    expect((await search("--text", "zebra", "--to", "1h")).checkpoints).toEqual([]);
    expect(
      (await search("--task", "find", "--phase", "testing", "--agent", "tester")).checkpoints,
    ).toHaveLength(1);
    expect((await fleet(["checkpoint", "list"])).out).toContain("Checkpoints of all tasks");
  });

  test("an empty result is one line, and a position of the future is an error", async () => {
    const none = await fleet(["checkpoint", "search", "--agent", "nobody"]);
    expect(none).toEqual({ exit: 0, out: "No checkpoint matches.\n", err: "" });
    const far = ["checkpoint", "search", "--wait-for", "f".repeat(20), "--timeout", "2s"];
    const { exit, err } = await fleet(far);
    expect(exit).toBe(69);
    expect(err).toMatch(/which may not exist yet: it is complete through [0-9a-f]{20}\./);
  });

  test("tasks are listed with filters, in pages", async () => {
    await written("task-one", 40);
    await written("task-two");
    const page = await json("tasks", "--type", "qa", "--state", "active", "--limit", "100");
    const listed = page.tasks.filter(({ task_id }: { task_id: string }) => task_id.startsWith("task-"));
    expect(listed).toMatchObject([
      { task_id: "task-one", progress_percent: 40, phase: "testing", owner: null },
      { task_id: "task-two", progress_percent: 0 },
    ]);
    const table = await fleet(["task", "list", "--type", "qa", "--limit", "1"]);
    expect(table.out).toMatch(/^TASK +STATE +OWNER +PHASE +PROGRESS +UPDATED +AGE\n/);
    expect(table.out).toMatch(
      /\n1 task; more with:\n {2}.*fleet task list --type qa --limit 1 --cursor \S+\n$/,
    );
    expect((await fleet(["tasks", "--state", "cancelled"])).out).toBe("No tasks.\n");
  });

  test("a fleet on an unusual port is found through its folder", async () => {
    const env = { FLEET_URL: "", FLEET_HOME: server.home };
    const found = await fleet(["status"], { env });
    expect(found).toMatchObject({ exit: 0, err: "" });
    expect(found.out).toContain(`at ${server.url}, up for`);
    const up = await fleetProcess(["up"], { env });
    const origin = `from ${join(server.home, "addresses.json")}`;
    const out = `A fleet is already running at ${server.url} (${origin}).\n`;
    expect(up).toEqual({ exit: 0, out, err: "" });
  });

  test.each([
    ["--url", (url: string) => [["up", "--url", url], { FLEET_URL: "" }] as const, "from --url"],
    ["FLEET_URL", (url: string) => [["up"], { FLEET_URL: url }] as const, "from FLEET_URL"],
  ])("up finds the fleet of %s", async (_, call, origin) => {
    const [args, env] = call(server.url);
    expect(JSON.parse((await fleetProcess([...args, "--json"], { env })).out)).toEqual({
      running: true,
      url: server.url,
      origin,
    });
  });

  test("status, task, index and version are printed", async () => {
    expect(await json("status")).toMatchObject({ store: { engine: "lmdb", ok: true }, bus: { ok: true } });
    expect((await fleet(["status"])).out).toContain(`at ${server.url}, up for`);
    await written("state");
    expect(await json("task", "show", "state")).toMatchObject({
      task_id: "state",
      state: "active",
      owner: null,
    });
    const rebuilt = await json("index", "rebuild");
    expect(rebuilt).toMatchObject({ state: "ready" });
    expect((await fleet(["index", "status"])).out).toMatch(/^Search index: ready, \d+ checkpoints?, /);
    expect((await json("version")).version).toMatch(/^\d+\.\d+\.\d+$/);
  });
});

describe("failures", () => {
  test.each([
    [["checkpoint", "show", "chk-01900000-0000-7000-8000-000000000000"], 4, "NOT_FOUND"],
    [["task", "show", "nowhere"], 4, "NOT_FOUND"],
    [["audit", "verify", "nowhere"], 4, "NOT_FOUND"],
    [["checkpoint", "show", "chk-no-id"], 65, "INVALID"],
    [["checkpoint", "--task", "a.b", "--type", "qa", "--phase", "testing"], 65, "INVALID"],
    [["checkpoint", "--task", "t", "--type", "qa", "--phase", "resting"], 65, "INVALID"],
    [
      ["checkpoint", "--task", "t", "--type", "qa", "--phase", "testing", "--expected-version", "9"],
      5,
      "CONFLICT",
    ],
    [["checkpoint", "--task", "t"], 64, "USAGE"],
    [["status", "--url", "nats://127.0.0.1:1"], 69, "UNAVAILABLE"],
  ])("fleet %j ends with %i", async (args, exit, code) => {
    const found = await fleet([...args, "--json"]);
    expect(found).toMatchObject({ exit, out: "" });
    expect(JSON.parse(found.err).error.code).toBe(code);
  });

  test("the error names the field and the next step", async () => {
    const { err } = await fleet(["checkpoint", "--task", "t", "--type", "qa", "--phase", "resting"]);
    expect(err.split("\n")).toEqual([
      "error: the input is not valid [INVALID]",
      '  checkpoint.execution_state.phase: expected one of planning, implementing, testing, reviewing, complete, handoff; got "resting"',
      "Correct the fields above; --help describes each option.",
      "",
    ]);
  });
});

describe("the audit trail", { timeout: CALLS_MS }, () => {
  test("is valid, until the store is changed on disk", async () => {
    const sound = await written("trail");
    const damaged = await written("trail");
    await fleet(["checkpoint", "finalize", sound, "--status", "succeeded"]);
    expect((await fleet(["audit", "show", "trail"])).out).toMatch(/ 3 .*finalize.*tester/);
    expect(await json("audit", "verify", "trail")).toMatchObject({ ok: true, entries: 3, problems: [] });

    expect(await server.terminate()).toBe(0);
    await tamper("trail", damaged.slice("chk-".length));
    await server.start();

    const verified = await fleet(["audit", "verify", "trail"]);
    expect(verified).toMatchObject({ exit: 8, err: "" });
    expect(verified.out).toContain("is NOT valid");
    expect(verified.out).toMatch(/ 3 +broken_link /);
    expect(await fleet(["checkpoint", "show", damaged, "--json"])).toMatchObject({ exit: 8, out: "" });
    const listed = await fleet(["checkpoint", "list", "--task", "trail"]);
    expect(listed.exit).toBe(0);
    expect(listed.out).not.toContain(damaged);
    expect(listed.err).toContain("warning: a checkpoint is corrupt and was left out");
  });
});

/** Changes an audit entry and the bytes of a checkpoint on disk, as an attacker with access to the disk could. */
async function tamper(task: string, checkpoint: string): Promise<void> {
  const store = await openStore(`lmdb:${join(server.home, "store")}`);
  const keys = tenantKeys("default");
  await store.transact({ label: "tamper", deadlineMs: 3_000, onUnknown: "safe" }, async (tx) => {
    const entry = decode<string>((await tx.get(keys.audit(task, 2)))!);
    tx.set(keys.audit(task, 2), encode(entry.replace('"tester"', '"mallory"')));
    const row = Buffer.from((await tx.get(keys.checkpoint(task, checkpoint)))!);
    const middle = Math.floor(row.length / 2);
    row.writeUInt8(row.readUInt8(middle) ^ 1, middle);
    tx.set(keys.checkpoint(task, checkpoint), row);
  });
  await store.close({ drainMs: 1_000 });
}
