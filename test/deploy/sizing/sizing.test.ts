// The figures, the formulas, the page and the command of deploy/SIZING.md: a small measured run costs what the formulas assume, so a change
// of the code that makes a command dearer or cheaper fails here. Then measure again: npm run sizing:measure -- --counts.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { beforeAll, describe, expect, test } from "vitest";
import { COSTS, type Counts, readFigures } from "../../../deploy/sizing/figures.ts";
import {
  bytesOf,
  bytesPerCheckpoint,
  eventsOf,
  indexRowsOf,
  ratesOf,
  storeProcesses,
  useOf,
  writesOf,
} from "../../../deploy/sizing/formulas.ts";
import { CHOICES } from "../../../deploy/sizing/limits.ts";
import { demandOf, readSizingCall } from "../../../deploy/sizing/options.ts";
import { SIZING_PAGE, sizingPage } from "../../../deploy/sizing/page.ts";
import { planFor } from "../../../deploy/sizing/plan.ts";
import { commandsOf } from "../../fleet/documents/documented-commands.ts";
import { projectRoot } from "../../harness/project-root.ts";
import { measureCounts, REPETITIONS } from "../../load/sizing/counts.ts";

const figures = readFigures();
const AGAIN = "npm run sizing:measure -- --counts, then npm run generate";

/**
 * The part by which a measured figure may differ. Times and host names have other lengths, and compressed bodies too. The indexer may index
 * two checkpoints of a handoff at once, and then their words share rows.
 */
const TOLERANCE = { bytes: 0.05, rows: 0.02, indexed: 0.5, memory: 0.5 } as const;
const INDEXED = /^(ix|text|posted)$/;

function expectNear(measured: number, assumed: number, tolerance: number, what: string): void {
  const difference = Math.abs(measured - assumed) / Math.max(1, assumed);
  expect(difference, `${what}: ${measured}, not ${assumed}; ${AGAIN}`).toBeLessThanOrEqual(tolerance);
}

describe("a small measured run", () => {
  let measured: Counts;
  beforeAll(async () => {
    measured = await measureCounts(REPETITIONS);
  });

  test.each(COSTS)("%s makes the transactions and messages that the formulas assume", (name) => {
    const [now, then] = [measured.costs[name], figures.counts.costs[name]];
    expect(now.transactions, AGAIN).toEqual(then.transactions);
    const numbers = (one: typeof now) =>
      Object.fromEntries(Object.entries(one.messages).map(([stream, { messages }]) => [stream, messages]));
    expect(numbers(now), AGAIN).toEqual(numbers(then));
  });

  test.each(COSTS)("%s stores the rows and bytes that the formulas assume", (name) => {
    const [now, then] = [measured.costs[name], figures.counts.costs[name]];
    expect(Object.keys(now.stored), AGAIN).toEqual(Object.keys(then.stored));
    for (const [family, { rows, bytes }] of Object.entries(then.stored)) {
      const isShared = INDEXED.test(family) && /^(handoff|recovery)$/.test(name);
      const [rowsOff, bytesOff] = isShared
        ? [TOLERANCE.indexed, TOLERANCE.indexed]
        : [TOLERANCE.rows, TOLERANCE.bytes];
      expectNear(now.stored[family]?.rows ?? 0, rows, rowsOff, `${name}, rows of ${family}`);
      expectNear(now.stored[family]?.bytes ?? 0, bytes, bytesOff, `${name}, bytes of ${family}`);
    }
    // A work queue is empty again.
    for (const [stream, { bytes }] of Object.entries(then.messages).filter(([, one]) => one.bytes > 0))
      expectNear(now.messages[stream]?.bytes ?? 0, bytes, TOLERANCE.bytes, `${name}, bytes of ${stream}`);
  });

  test("a heartbeat, a queued command and a monitored agent have the assumed size", () => {
    const { queued, heartbeat, memory } = figures.counts;
    expectNear(measured.queued.bytes, queued.bytes, TOLERANCE.bytes, "queued command");
    // The name of the host and the id of the process are in it.
    expectNear(measured.heartbeat.bytes, heartbeat.bytes, 0.25, "heartbeat");
    const key = "watchdog_bytes_per_agent";
    expectNear(measured.memory[key], memory[key], TOLERANCE.memory, "memory");
  });

  test("the formulas give the bytes of the store that the run had", () => {
    const { costs, bodies } = measured;
    const stored = bytesOf(costs.create, "kept") + bytesOf(costs.finalize, "kept");
    expectNear(bytesPerCheckpoint(figures.counts, bodies.create), stored, 0.1, "checkpoint");
    const large = bytesOf(costs.create_large, "kept") + bytesOf(costs.finalize, "kept");
    expectNear(bytesPerCheckpoint(figures.counts, bodies.create_large), large, 0.1, "large one");
  });
});

describe("the formulas", () => {
  test("add up what is counted", () => {
    const { create } = figures.counts.costs;
    expect(writesOf(create)).toBe(1);
    expect(eventsOf(create)).toBe(1);
    expect(indexRowsOf(create)).toBeGreaterThan(20);
    expect(bytesOf(create, "temporary")).toBeGreaterThan(0);
    expect(bytesOf(create, "kept")).toBeGreaterThan(CHOICES.bytes.value);
  });

  test("grow with the demand, and each by its own cause", () => {
    const small = demandOf({ agents: 1_000 });
    const rates = ratesOf(figures, small);
    expect(ratesOf(figures, demandOf({ agents: 10_000 })).heartbeats).toBeCloseTo(rates.heartbeats * 10);
    expect(ratesOf(figures, { ...small, perHour: 12 }).checkpoints).toBeCloseTo(rates.checkpoints * 2);
    expect(ratesOf(figures, { ...small, heartbeatSeconds: 4 }).heartbeats).toBeCloseTo(rates.heartbeats / 2);
    const at = (checkpoints: number) => planFor(figures, { ...small, checkpoints });
    expect(at(1e9).storage.store / at(1e8).storage.store).toBeCloseTo(10, 0);
    expect(at(1e9).processes.foundationdb).toBeGreaterThan(at(1e6).processes.foundationdb);
    expect(at(1e9).rates).toEqual(at(1e6).rates);
  });

  test("FoundationDB has the processes of the larger need, by writes or by disk", () => {
    const copies = { copies: 3 };
    const none = { keys: 0 };
    expect(storeProcesses(none, { disk: 0 }, copies)).toBe(6);
    expect(storeProcesses(none, { disk: 60e12 }, copies)).toBe(150);
    expect(storeProcesses({ keys: 400_000 }, { disk: 0 }, copies)).toBe(150);
    expect(storeProcesses({ keys: 400_000 }, { disk: 60e12 }, copies)).toBe(150);
  });

  test.each([10, 100, 10_000, 100_000, 1_000_000, 10_000_000])(
    "no fleet of the plan for %d agents exceeds a limit",
    (agents) => {
      const plan = planFor(figures, demandOf({ agents }));
      const part = demandOf({
        agents: agents / plan.fleets,
        checkpoints: plan.demand.checkpoints / plan.fleets,
      });
      const storage = {
        ...plan.storage,
        store: plan.storage.store / plan.fleets,
        disk: plan.storage.disk / plan.fleets,
      };
      for (const [limit, use] of Object.entries(useOf(figures, part, storage)))
        expect(use, limit).toBeLessThanOrEqual(1.05);
      expect(plan.processes.watchdogs).toBeGreaterThanOrEqual(plan.shape === "cluster" ? 2 : 1);
    },
  );
});

test("the page is up to date (npm run generate), and the same each time", () => {
  expect(readFileSync(SIZING_PAGE, "utf8")).toBe(sizingPage());
  expect(sizingPage()).toBe(sizingPage());
});

describe("the command", () => {
  const run = (args: readonly string[]) =>
    spawnSync(process.execPath, ["deploy/sizing/main.ts", ...args], { cwd: projectRoot, encoding: "utf8" });

  test("answers the examples of the page and of its help", () => {
    const page = [...sizingPage().matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = ""]) => block);
    const lines = page.flatMap(commandsOf);
    expect(lines).toHaveLength(2);
    const help = run(["--help"]);
    expect(help).toMatchObject({ status: 0, stderr: "" });
    for (const { command, prints } of lines) {
      expect(help.stdout).toContain(command.replace(/ +$/, ""));
      const { status, stdout } = run(command.replace("npm run --silent sizing -- ", "").split(" "));
      expect(status).toBe(0);
      for (const text of prints) expect(stdout).toContain(text);
      if (command.includes("--json")) expect(JSON.parse(stdout)).toMatchObject({ demand: { agents: 1e6 } });
    }
  });

  test("refuses a wrong call with the option, the expectation and exit code 64", () => {
    const wrong: [string[], RegExp][] = [
      [[], /--agents: expected .*; got nothing/],
      [["--agents"], /--agents: expected a whole number from 1 to 100000000; got nothing/],
      [["--agents", "many"], /got "many"/],
      [["--agents", "1.5"], /whole number/],
      [["--agents", "-1"], /got "-1"/],
      [["--agents", "1e9"], /from 1 to/],
      [["--agents", "0x10"], /got "0x10"/],
      [["--agents", "1", "--checkpoints", "1e13"], /--checkpoints: expected/],
      [["--agents", "1", "--checkpoint", "1"], /did you mean `--checkpoints`/],
      [["10"], /unexpected argument "10"/],
    ];
    for (const [args, message] of wrong) {
      expect(() => readSizingCall(args), args.join(" ")).toThrow(message);
    }
    const { status, stdout, stderr } = run(["--agents", "many"]);
    expect({ status, stdout }).toEqual({ status: 64, stdout: "" });
    expect(stderr).toMatch(/^sizing: --agents: .*--help`\.\n$/);
  });

  test("takes every option in both forms", () => {
    const options = ["--agents=1e3", "--checkpoints", "5", "--bytes=9", "--per-hour", "0.5", "--copies", "2"];
    expect(readSizingCall([...options, "--json", "--heartbeat", "5", "--silence=20"])).toEqual({
      kind: "plan",
      json: true,
      demand: {
        agents: 1_000,
        checkpoints: 5,
        bytes: 9,
        perHour: 0.5,
        heartbeatSeconds: 5,
        silenceSeconds: 20,
        copies: 2,
      },
    });
  });
});
