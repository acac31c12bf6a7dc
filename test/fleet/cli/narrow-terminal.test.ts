// Every listing command on a terminal of 80 columns, with the longest names: no line wraps, the owner stays, and commands accept the
// shortened ids.

import { join } from "node:path";
import { Readable } from "node:stream";
import { stripVTControlCharacters } from "node:util";
import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { run } from "../../../services/cli/runtime/program.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { administratorBus } from "../../harness/credentials.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { exitReport } from "../../harness/records/exit-reports.ts";
import { callCli } from "../../services/cli/call.ts";
import { environment } from "../../services/cli/process.ts";

const COLUMNS = 80;
const POLL = { timeout: 20_000, interval: 50 };
const LONG = "0123456789".repeat(5);
/** 64 characters, the longest that a name may have. They differ at the end. */
const name = (kind: string, one: string) => `${`${kind}-${LONG}${LONG}`.slice(0, 62)}-${one}`;
const TASKS = ["a", "b", "c"].map((one) => name("task", one));
const AGENTS = ["a", "b", "c"].map((one) => name("agent", one));
const [FIRST, , THIRD] = TASKS as [string, string, string];
/** An owner that has room on a terminal. */
const SHORT_OWNER = "implementer-17";
const SHORT_TASK = name("owned", "d");

let server: TestFleet;
const clients: FleetClient[] = [];

const env = () => ({
  FLEET_URL: server.url,
  FLEET_HOME: server.home,
  FLEET_SPOOL_DIR: join(server.home, "spool"),
  FLEET_PERSON: name("person", "a"),
});

/** The lines of a command on a terminal. */
async function shown(...args: string[]): Promise<string[]> {
  let out = "";
  let err = "";
  const exit = await run({
    argv: args,
    script: join(projectRoot, "services/cli/main.ts"),
    env: environment(env()),
    stdin: Readable.from([]) as unknown as NodeJS.ReadStream,
    inputKind: "nothing",
    stdout: { isTTY: true, columns: COLUMNS, write: (text: string) => (out += text) },
    stderr: { write: (text: string) => (err += text) },
    now: Date.now,
  });
  expect({ exit, err }, args.join(" ")).toEqual({ exit: 0, err: "" });
  return stripVTControlCharacters(out).trimEnd().split("\n");
}

beforeAll(async () => {
  server = await startFleet();
  for (const [place, agent] of AGENTS.entries()) {
    const client = await server.client(agent);
    clients.push(client);
    const task = await client.takeTask(TASKS[place]!);
    for (const phase of ["planning", "implementing"] as const)
      await task.checkpoint({
        metadata: { agent_type: "implementation" },
        execution_state: { phase, pending_items: ["the rest"], completed_items: ["the first"] },
        metrics: { tokens_consumed: 1_200_000, model: name("model", agent), cost: { amount: 1_250.25 } },
      });
    client.startHeartbeat({ agentType: "implementation", state: "working" });
  }
  const short = await server.client(SHORT_OWNER);
  await (await short.takeTask(SHORT_TASK)).checkpoint({
    metadata: { agent_type: "implementation" },
    execution_state: { phase: "implementing", pending_items: ["the rest"] },
  });
  const cli = async (line: string) => {
    const result = await callCli(line.split(" "), { env: env() });
    expect(result, line).toMatchObject({ exit: 0 });
  };
  await cli(`handoff create ${FIRST} --reason full --fence 1`);
  const report = { agent_id: AGENTS[2]!, agent_type: "implementation", task_id: THIRD, fence: 1 };
  await clients[2]!.reportExit(exitReport({ ...report, class: "unrecoverable", details: LONG }));
  await vi.waitFor(async () => expect((await clients[2]!.getTask(THIRD))?.state).toBe("blocked"), POLL);
  for (const one of ["a", "b"])
    await cli(`access issue --agent ${name("agent", one)} --out ${join(server.home, one)}`);
  await spooled();
  await deadLetter();
  await cli(`access revoke ${name("agent", "a")}`);
  const { admin } = clients[0]!;
  await vi.waitFor(async () => {
    expect((await admin.listAlerts({ taskId: THIRD })).alerts).toHaveLength(1);
    expect((await admin.agents({})).agents.map((one) => one.agent_id)).toEqual(
      expect.arrayContaining(AGENTS),
    );
    expect((await admin.indexStatus()).behind).toBe(0);
  }, POLL);
}, 60_000);
afterAll(() => server?.stop());

/** A command that waits on this machine, because its bus is unavailable. */
async function spooled(): Promise<void> {
  const args = ["checkpoint", "--task", FIRST, "--type", "qa", "--phase", "testing", "--pending", "the rest"];
  const nowhere = { ...env(), FLEET_URL: "nats://127.0.0.1:1", FLEET_AGENT_ID: AGENTS[0]! };
  expect(await callCli(args, { env: nowhere })).toMatchObject({
    exit: 0,
    out: expect.stringMatching(/^Spooled/),
  });
}

/** A queued command that cannot be applied. */
async function deadLetter(): Promise<void> {
  const bus = await administratorBus(server, AGENTS[0]!);
  const body = { command_id: uuidv7(), checkpoint_id: uuidv7(), patch: { metrics: { error_count: 1 } } };
  await bus.publishDurable(
    SUBJECTS.queue("default", AGENTS[0]!, FIRST, "update"),
    { body: Buffer.from(JSON.stringify(body)) },
    { messageId: body.command_id, timeoutMs: 5_000 },
  );
  await bus.close();
  const { admin } = clients[0]!;
  await vi.waitFor(async () => expect((await admin.deadLetters()).letters).toHaveLength(1), POLL);
}

const LISTINGS = [
  "tasks",
  "checkpoint list",
  "checkpoint list --task TASK",
  "checkpoint list --limit 2",
  "checkpoint history TASK",
  "checkpoint history TASK --limit 1",
  "checkpoint search --phase planning",
  "handoff list",
  "recovery list",
  "recovery reset --blocked --dry-run",
  "agents list",
  "alerts list",
  "alerts list --all",
  "access list",
  "queue dead list",
  "audit show TASK",
  "audit show TASK3",
  "audit tenant",
  "cost TASK",
  "cost TASK --by agent",
  "cost TASK --by model",
  "scrub findings",
  "spool status",
];

/** A command is printed as a whole, so that it can be copied. */
const isCommand = (line: string) => line.startsWith("  npx fleet ");

test.each(LISTINGS)("`fleet %s` wraps no line", async (line) => {
  const args = line.replace("TASK3", THIRD).replace("TASK", FIRST).split(" ");
  const lines = await shown(...args);
  expect(lines.filter((each) => each.length > COLUMNS && !isCommand(each))).toEqual([]);
});

/** The cells of the column with this head, without its head. */
async function column(head: string, ...args: string[]): Promise<string[]> {
  const lines = await shown(...args);
  const heads = lines.findIndex((line) => line.includes(head));
  const place = lines[heads]!.split(/ {2,}/).indexOf(head);
  const rows = lines.slice(heads + 1);
  return rows.slice(0, rows.indexOf("")).map((row) => row.trimStart().split(/ {2,}/)[place]!);
}

/** The names are distinct, and each is a name or its two ends. */
function expectNames(cells: readonly string[], names: readonly string[]): void {
  expect(new Set(cells).size).toBe(new Set(names).size);
  for (const cell of cells) {
    const [begin = "", end] = cell.split("…");
    const fits = (one: string) =>
      end === undefined ? one === cell : one.startsWith(begin) && one.endsWith(end);
    expect(names.filter(fits), cell).toHaveLength(1);
  }
}

describe("the owner", () => {
  test.each([
    ["OWNER", "tasks"],
    ["AGENT", "checkpoint list"],
    ["AGENT", "checkpoint search --phase implementing"],
    ["AGENT", "agents list"],
  ])("is in the column %s of `fleet %s`, as a whole if it is short", async (head, line) => {
    const cells = (await column(head, ...line.split(" "))).filter((cell) => cell !== "-");
    expect(cells).toContain(SHORT_OWNER);
    expectNames(cells, [...AGENTS.filter((one) => line !== "tasks" || one !== AGENTS[2]), SHORT_OWNER]);
  });
  test("is in a history, and in the list of handoffs", async () => {
    expect((await shown("checkpoint", "history", FIRST)).join("\n")).toMatch(/agent-0\d*…\d*-a$/m);
    expectNames(await column("FROM", "handoff", "list"), [AGENTS[0]!]);
  });
});

describe("the sender", () => {
  test.each(["queue dead list", "spool status"])("of a command is in `fleet %s`", async (line) => {
    expectNames(await column("AGENT", ...line.split(" ")), [AGENTS[0]!]);
  });
});

describe("a shortened id", () => {
  test("of a task is accepted", async () => {
    const cells = await column("TASK", "tasks");
    expectNames(cells, [...TASKS, SHORT_TASK]);
    for (const cell of cells) expect(cell).toContain("…");
    for (const cell of cells) {
      const { out } = await callCli(["task", "show", cell, "--json"], { env: env() });
      expect([...TASKS, SHORT_TASK]).toContain(JSON.parse(out).task_id);
    }
  });
  test("of a checkpoint is accepted", async () => {
    const cells = await column("ID", "checkpoint", "list");
    expect(new Set(cells).size).toBe(7);
    for (const cell of cells) expect(cell).toMatch(/^chk-[0-9a-f]{8}…[0-9a-f]{6}$/);
    const all = JSON.parse((await callCli(["checkpoint", "list", "--json"], { env: env() })).out);
    const ids = all.checkpoints.map(
      (one: { metadata: { checkpoint_id: string } }) => one.metadata.checkpoint_id,
    );
    const found = await Promise.all(
      cells.map(async (cell) => {
        const { out } = await callCli(["checkpoint", "show", cell, "--json"], { env: env() });
        return JSON.parse(out).metadata.checkpoint_id;
      }),
    );
    expect(found).toEqual(ids);
  });
  test("of a handoff and of an alert is accepted", async () => {
    const [handoff = ""] = await column("ID", "handoff", "list");
    const named = JSON.parse((await callCli(["handoff", "show", handoff, "--json"], { env: env() })).out);
    expect({ shown: handoff, task: named.task_id }).toEqual({
      shown: expect.stringMatching(/^[0-9a-f]{8}…[0-9a-f]{6}$/),
      task: FIRST,
    });
    const [alert = ""] = await column("ID", "alerts", "list", "--task", THIRD);
    expect(alert).toMatch(/^default\/task-.*….*-c\/\d+$/);
    const raised = await callCli(["alerts", "show", alert, "--json"], { env: env() });
    expect(JSON.parse(raised.out).alert.subject).toBe(THIRD);
    const acknowledged = await callCli(["alerts", "ack", alert, "--json"], { env: env() });
    expect(acknowledged).toMatchObject({ exit: 0, err: "" });
  });
  test("with several meanings is refused, and without one is not found", async () => {
    const several = await callCli(["task", "show", "task-…"], { env: env() });
    expect(several).toMatchObject({
      exit: 64,
      err: expect.stringContaining(`several tasks have the form task-…`),
    });
    expect((await callCli(["task", "show", "none…x"], { env: env() })).exit).toBe(4);
    expect((await callCli(["checkpoint", "show", "chk-01a20afe…34d6ef"], { env: env() })).exit).toBe(4);
  });
});
