/**
 * A short run of `npm run faults`: a correct build has no violation, and each broken build is revealed by the check for it. Longer runs are
 * for operators: `npm run faults -- --minutes 10`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { projectRoot } from "../harness/project-root.ts";
import { BROKEN, BROKEN_NAMES, type BrokenName } from "./faults/environment/broken-builds.ts";
import type { RoundResult } from "./faults/round.ts";
import { TASK_KINDS } from "./faults/workers/task-kinds.ts";

interface Run {
  readonly code: number | null;
  readonly output: string;
  readonly report: { readonly violations: number; readonly command: string; readonly rounds: RoundResult[] };
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-faults-test-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function run(name: string, ...options: string[]): Promise<Run> {
  const json = join(folder, `${name}.json`);
  const child = spawn(process.execPath, ["test/fleet/faults/main.ts", ...options, "--json", json], {
    cwd: projectRoot,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk: Buffer) => {
      output += chunk.toString();
    });
  }
  const [code] = (await once(child, "close")) as [number | null];
  try {
    return { code, output, report: JSON.parse(readFileSync(json, "utf8")) };
  } catch (error) {
    throw new Error(`the run wrote no report:\n${output}`, { cause: error });
  }
}

describe("a correct build", () => {
  test("keeps its guarantees in one process and in several on one store", async () => {
    const { code, output, report } = await run(
      "correct",
      "--minutes",
      "0.4",
      "--rounds",
      "alone,several",
      "--seed",
      "11",
    );
    expect(report.violations, output).toBe(0);
    expect(code).toBe(0);
    for (const { faults, checked, copies, evidence } of report.rounds) {
      expect(Object.keys(faults).length).toBeGreaterThan(8);
      expect(checked.audit_entries).toBeGreaterThan(50);
      expect(checked.reads).toBeGreaterThan(30);
      expect(Object.keys(copies).length).toBeGreaterThan(2);
      expect(evidence).toBeNull();
    }
    const total = (of: (round: RoundResult) => number) =>
      report.rounds.reduce((sum, round) => sum + of(round), 0);
    expect(
      total(({ zombies }) => zombies.tried),
      "superseded agents that tried to write",
    ).toBeGreaterThan(0);
    expect(total(({ handoffs }) => handoffs.requested)).toBeGreaterThan(5);
    expect(total(({ handoffs }) => handoffs.ends.confirmed ?? 0)).toBeGreaterThan(1);
    expect(Object.keys(report.rounds[0]!.handoffs.open_at_kills).length).toBeGreaterThan(0);
    expect(total(({ recoveries }) => recoveries.succeeded)).toBeGreaterThan(20);
    expect(total(({ recoveries }) => recoveries.failed)).toBe(0);
    const several = report.rounds[1]!.recoveries;
    // Every kind of task occurs. The reasons and ends of a kind depend on the moments of the faults; the checker judges them.
    const kinds = new Set(Object.keys(several.tasks).map((name) => name.split(" ")[0]));
    expect([...kinds].sort()).toEqual([...TASK_KINDS].sort());
    expect(Object.keys(several.could_not)).toContain("unrecoverable");
  }, 300_000);
});

describe("a broken build is detected", () => {
  // Two at a time, because they mostly wait.
  const pairs = BROKEN_NAMES.flatMap((name, i) => (i % 2 === 0 ? [[name, BROKEN_NAMES[i + 1]]] : []));
  test.each(pairs)(
    "%s and %s",
    async (...names) => {
      await Promise.all(names.flatMap((name) => (name === undefined ? [] : [detected(name)])));
    },
    300_000,
  );

  async function detected(name: BrokenName): Promise<void> {
    const faults = ["--faults", "kill_service,pause_agents"];
    const { code, output, report } = await run(
      name,
      "--broken",
      name,
      "--minutes",
      "0.1",
      "--rounds",
      "alone",
      "--seed",
      "5",
      ...faults,
    );
    expect(code, `${name}: ${output}`).toBe(1);
    const [round] = report.rounds;
    expect(
      round?.violations.map(({ kind }) => kind),
      name,
    ).toContain(BROKEN[name].revealedBy);
    expect(output).toContain(report.command);
    expect(report.command).toContain("--seed 5");
    if (round?.evidence) rmSync(round.evidence, { recursive: true });
  }
});

test("an invalid option prints one line and the help, without a stack", async () => {
  const child = spawn(process.execPath, ["test/fleet/faults/main.ts", "--seed", "x"], { cwd: projectRoot });
  let text = "";
  child.stderr.on("data", (chunk: Buffer) => {
    text += chunk.toString();
  });
  const [code] = (await once(child, "close")) as [number | null];
  expect(code).toBe(2);
  expect(text).toContain("--seed takes a whole number");
  expect(text).toContain("--minutes");
  expect(text).not.toMatch(/^\s+at /m);
});
