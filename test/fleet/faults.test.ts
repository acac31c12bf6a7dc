/**
 * A short run of `npm run faults`: a correct build has no violation, and a broken build is revealed by the check for it. Longer runs and
 * the other broken builds are for maintainers and operators: `npm run faults -- --minutes 10` and `npm run faults -- --broken all`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { projectRoot } from "../harness/project-root.ts";
import { missingCluster } from "../harness/stores/foundationdb.ts";
import { BROKEN, type BrokenName } from "./faults/environment/broken-builds.ts";
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

test("a correct build keeps its guarantees in several processes on one store", async () => {
  const plan = ["--minutes", "0.3", "--rounds", "several", "--seed", "11"];
  const { code, output, report } = await run("correct", ...plan);
  expect(report.violations, output).toBe(0);
  expect(code).toBe(0);
  const [round] = report.rounds as [RoundResult];
  expect(Object.keys(round.faults).length).toBeGreaterThan(8);
  expect(round.checked.audit_entries).toBeGreaterThan(50);
  expect(round.checked.reads).toBeGreaterThan(30);
  expect(Object.keys(round.copies).length).toBeGreaterThan(2);
  expect(round.evidence).toBeNull();
  expect(round.zombies.tried, "superseded agents that tried to write").toBeGreaterThan(0);
  expect(round.handoffs.requested).toBeGreaterThan(5);
  expect(round.handoffs.ends.confirmed ?? 0).toBeGreaterThan(1);
  expect(Object.keys(round.handoffs.open_at_kills).length).toBeGreaterThan(0);
  expect(round.recoveries.succeeded).toBeGreaterThan(10);
  expect(round.recoveries.failed).toBe(0);
  // Every kind of task occurs. The reasons and ends of a kind depend on the moments of the faults; the checker judges them.
  const kinds = new Set(Object.keys(round.recoveries.tasks).map((name) => name.split(" ")[0]));
  expect([...kinds].sort()).toEqual([...TASK_KINDS].sort());
  expect(Object.keys(round.recoveries.could_not)).toContain("unrecoverable");
}, 900_000);

test("a correct build keeps its guarantees while retention removes checkpoints", async () => {
  const plan = ["--minutes", "0.25", "--rounds", "retention", "--seed", "12"];
  const { code, output, report } = await run("retention", ...plan);
  expect(report.violations, output).toBe(0);
  expect(code).toBe(0);
  const [{ removals }] = report.rounds as [RoundResult];
  for (const kind of ["removed: count", "removed: request", "refused", "holds placed"])
    expect(removals[kind] ?? 0, `${kind}: ${output}`).toBeGreaterThan(0);
}, 900_000);

test("a correct build keeps its guarantees while servers of the bus are killed and frozen", async () => {
  // With this seed a leader is killed first, and a leader is frozen later.
  const plan = ["--minutes", "0.4", "--rounds", "cluster", "--seed", "221"];
  const { code, output, report } = await run("cluster", ...plan);
  expect(report.violations, output).toBe(0);
  expect(code).toBe(0);
  const [{ faults, availability, recoveries }] = report.rounds as [RoundResult];
  expect(faults.kill_bus_leader, output).toBeGreaterThan(0);
  expect(recoveries.failed).toBe(0);
  const { seconds = 0, answered = 0 } = availability["all seconds"] ?? {};
  expect(seconds).toBeGreaterThan(20);
  expect(answered, output).toBeGreaterThan(0);
}, 900_000);

test.skipIf((await missingCluster()) !== undefined)(
  "a correct build keeps its guarantees while zones of FoundationDB are killed and frozen",
  async () => {
    const plan = ["--minutes", "0.5", "--rounds", "foundationdb", "--seed", "31"];
    const { code, output, report } = await run("foundationdb", ...plan);
    expect(report.violations, output).toBe(0);
    expect(code).toBe(0);
    const [{ faults, availability, recoveries }] = report.rounds as [RoundResult];
    // The next zone waits until the cluster has recovered from the last one, so a slow machine may have one fault only.
    expect((faults.kill_fdb_zone ?? 0) + (faults.pause_fdb_zone ?? 0), output).toBeGreaterThan(0);
    expect(recoveries.failed).toBe(0);
    expect(availability["all seconds"]?.answered ?? 0, output).toBeGreaterThan(0);
  },
  900_000,
);

// One of them here; `npm run faults -- --broken all` runs every one.
test("a build that ignores fences is detected", async () => {
  const name: BrokenName = "fence_off";
  const plan = [
    "--minutes",
    "0.1",
    "--rounds",
    "alone",
    "--seed",
    "5",
    "--faults",
    "kill_service,pause_agents",
  ];
  const { code, output, report } = await run(name, "--broken", name, ...plan);
  expect(code, output).toBe(1);
  const [round] = report.rounds;
  expect(round?.violations.map(({ kind }) => kind)).toContain(BROKEN[name].revealedBy);
  expect(output).toContain(report.command);
  expect(report.command).toContain("--seed 5");
  if (round?.evidence) rmSync(round.evidence, { recursive: true });
}, 900_000);

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
