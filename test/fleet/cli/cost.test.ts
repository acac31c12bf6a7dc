// `fleet cost` and the reported context against a standalone fleet: the tokens and the money of a task.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { callCli } from "../../services/cli/call.ts";
import type { Result } from "../../services/cli/process.ts";

const TASK = "spent";
let server: TestFleet;

beforeAll(async () => {
  server = await startFleet();
  const client = await server.client("coder-1");
  const reports = [
    { phase: "planning", metrics: { tokens_consumed: 1_200, model: "large-1", cost: { amount: 0.25 } } },
    { phase: "testing", metrics: { tokens_consumed: 1_500, model: "large-1", cost: { amount: 1.5 } } },
    { phase: "testing", metrics: { tokens_consumed: 9_500, model: "small-\u202e1", cost: { amount: 1.75 } } },
  ] as const;
  for (const { phase, metrics } of reports)
    await client.createCheckpoint({
      taskId: TASK,
      deadlineMs: 20_000,
      checkpoint: { metadata: { agent_type: "qa" }, execution_state: { phase }, metrics },
    });
});
afterAll(() => server.stop());

const fleet = (line: string): Promise<Result> => {
  const { url, home } = server;
  const env = { FLEET_URL: url, FLEET_HOME: home, FLEET_SPOOL_DIR: join(home, "spool"), COLUMNS: "80" };
  return callCli(line.split(" "), { env });
};

test("prints a row for each segment, and the sums of each model", async () => {
  const segments = await fleet(`cost ${TASK}`);
  expect(segments).toMatchObject({ exit: 0, err: "" });
  expect(segments.out.split("\n")).toEqual([
    "CHECKPOINTS  AGENT    PHASE     MODEL     TOKENS      COST",
    "#1           coder-1  planning  large-1    1,200  0.25 USD",
    "#2           coder-1  testing   large-1      300  1.25 USD",
    "#3           coder-1  testing   small-\ufffd1   8,000  0.25 USD",
    "",
    "3 segments: 3 checkpoints, 9,500 tokens, 1.75 USD",
    "",
  ]);
  expect((await fleet(`cost ${TASK} --by model`)).out.split("\n")).toEqual([
    "MODEL     CHECKPOINTS  TOKENS      COST",
    "large-1             2   1,500  1.50 USD",
    "small-\ufffd1            1   8,000  0.25 USD",
    "",
    "3 checkpoints, 9,500 tokens, 1.75 USD",
    "",
  ]);
  const byPhase = JSON.parse((await fleet(`cost ${TASK} --by phase --json`)).out);
  expect(byPhase).toMatchObject({
    task_id: TASK,
    by: "phase",
    rows: [
      { key: "planning", tokens: 1_200 },
      { key: "testing", tokens: 8_300, money: [{ amount: 1.5, currency: "USD" }] },
    ],
    total: { checkpoints: 3, tokens: 9_500 },
  });
});

test("a task that does not exist is NOT_FOUND, and a wrong part is a usage error", async () => {
  const missing = await fleet("cost nothing-here --json");
  expect(JSON.parse(missing.err).error.code).toBe("NOT_FOUND");
  expect(await fleet(`cost ${TASK} --by hour`)).toMatchObject({ exit: 64, out: "" });
});

test("a negative cost and an unknown form of currency are refused", async () => {
  const client = await server.client("coder-1");
  const created = (cost: { amount: number; currency?: string }) =>
    client.createCheckpoint({
      taskId: "refused",
      checkpoint: {
        metadata: { agent_type: "qa" },
        execution_state: { phase: "testing" },
        metrics: { cost },
      },
    });
  await expect(created({ amount: -1 })).rejects.toMatchObject({ code: "INVALID" });
  await expect(created({ amount: 1, currency: "dollars" })).rejects.toMatchObject({ code: "INVALID" });
});

const REPORTED = "--type qa --phase testing --timeout 20s";

test("the usage of the context is stored, and a full context advises a handoff", async () => {
  const usage = "--tokens 410000 --context-used 150000 --context-limit 200000";
  const { exit, out, err } = await fleet(`checkpoint -t full ${REPORTED} ${usage}`);
  expect({ exit, err }).toEqual({ exit: 0, err: "" });
  expect(out).toContain(
    "A handoff is advised: the context is filling up: 75 %, over 70 %\n" +
      "Request it: npx fleet handoff create full\n",
  );
  const id = /^Checkpoint created: (\S+)$/m.exec(out)?.[1] ?? "";
  expect((await fleet(`checkpoint show ${id}`)).out).toMatch(
    /^Tokens: +410,000\nContext: +150,000 of 200,000 tokens, 75%$/m,
  );
});

test("a context over its limit is shown as such, and one of its two numbers alone is not enough", async () => {
  const over = await fleet(`checkpoint -t over ${REPORTED} --context-used 250000 --context-limit 200000`);
  expect(over.out).toContain("A handoff is advised: the context is over its limit: 125 %, over 70 %\n");
  const alone = await fleet(`checkpoint -t over ${REPORTED} --context-used 150000`);
  expect(alone.exit).toBe(0);
  expect(alone.err).toBe(
    "warning: --context-used without --context-limit, the tokens that the context can hold, " +
      "does not tell how full the context is, so no handoff is advised\n",
  );
});
