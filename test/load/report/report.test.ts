import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { judgedQuickly, row, TARGETS } from "../measure/targets.ts";
import { LOAD, reportFiles } from "./files.ts";
import { KEY_FIGURES } from "./key-figures.ts";
import { shareOfLimit } from "./plots.ts";
import {
  type NamedRun,
  type NamedSimulation,
  newestGroups,
  RESULTS,
  readRuns,
  readSimulations,
  SIMULATIONS,
} from "./results.ts";

const stored = readRuns(RESULTS);
/** Measured only where the raw engine and PostgreSQL are. */
const OPTIONAL = /^commits (to raw commits|of Fleet to those of)/;

const MACHINE: NamedRun["machine"] = {
  ...{ cores: 2, cpu: "A processor", memory_gib: 8, system: "Linux 6", node: "v24.0.0" },
  ...{ nats_server: "2.15.1", lmdb: "3.5.6", load_average: [0.5, 0.25, 0], busy_percent: 1 },
};

function runOf(name: string, at: string, commits: number): NamedRun {
  return {
    name,
    run: { at, commit: "0123456789ab", changed: false, stores: ["lmdb"], quick: false },
    machine: MACHINE,
    groups: [
      {
        ...{ name: "sustained", store: "LMDB", about: "1,000 writes in flight" },
        rows: [
          row("commits", commits, "/s", { required: { at_least: 2_000 }, aim: null }),
          row("failed", 0, "requests", TARGETS.failed),
        ],
      },
    ],
    failures: [{ group: "handoff on LMDB", reason: "no answer" }],
  };
}

describe("the stored report", () => {
  test("is what the stored runs give, byte for byte, and has no other chart", () => {
    const files = reportFiles(stored, readSimulations(SIMULATIONS));
    for (const [path, text] of files) expect(readFileSync(join(LOAD, path), "utf8"), path).toBe(text);
    const charts = readdirSync(join(LOAD, "plots")).map((name) => `plots/${name}`);
    expect(charts.sort()).toEqual([...files.keys()].filter((path) => path.endsWith(".svg")).sort());
  });

  test("finds each key figure of every stored group, so that no renamed row is left out in silence", () => {
    const groups = newestGroups(stored).map(({ group }) => group);
    expect(groups.length).toBeGreaterThan(0);
    for (const { name, rows } of groups)
      for (const { what } of KEY_FIGURES.filter(({ group }) => group === name))
        if (!OPTIONAL.test(what)) expect(rows.map((one) => one.what)).toContain(what);
  });
});

describe("a report", () => {
  const older = runOf("older", "2026-01-01T10:00:00.000Z", 2_345);
  const newer = runOf("newer", "2026-01-02T10:00:00.000Z", 1_765);
  const files = reportFiles([older, newer]);
  const page = files.get("REPORT.md")!;

  test("names the machine, the versions, the time, the commit and the failures of a run", () => {
    expect(page).toContain(
      "2 cores, A processor, 8 GiB, Linux 6; Node v24.0.0, nats-server 2.15.1, lmdb 3.5.6",
    );
    expect(page).toMatch(/\| \[newer\]\(results\/newer\.json\) +\| 2026-01-02 10:00 UTC +\| 0123456789ab/);
    expect(page).toContain("1 % in use, load 0.5 0.25 0 | handoff on LMDB");
  });

  test("changes with each figure", () => {
    const changed = reportFiles([older, runOf("newer", newer.run.at, 1_766)]);
    expect(changed.get("REPORT.md")).toBe(page.replaceAll("1,765", "1,766"));
    expect(changed.get("plots/commits.svg")).not.toBe(files.get("plots/commits.svg"));
  });

  test("shows a group from its newest run, and lists what that run missed", () => {
    expect(newestGroups([older, newer]).map(({ run }) => run.name)).toEqual(["newer"]);
    expect(page).toContain("- sustained on LMDB, commits: 1,765 /s, required ≥ 2,000 (newer)");
  });

  test("of a quick run says that nothing was judged, and shows no figure beside its limit", () => {
    const quick: NamedRun = {
      ...newer,
      run: { ...newer.run, quick: true },
      groups: newer.groups.map((group) => ({ ...group, rows: group.rows.map(judgedQuickly) })),
    };
    const quickFiles = reportFiles([quick]);
    expect(quickFiles.get("REPORT.md")).toContain(
      "## Required, but missed\n\nNot judged: a quick run (newer; figures: 1).\n",
    );
    expect([...quickFiles.keys()]).not.toContain("plots/targets.svg");
    expect([...files.keys()]).toContain("plots/targets.svg");
    const both = reportFiles([
      quick,
      { ...newer, name: "later", groups: [{ ...newer.groups[0]!, store: "X" }] },
    ]);
    expect(both.get("REPORT.md")).toContain(
      "required ≥ 2,000 (later)\n\nNot judged: a quick run (newer; figures: 1).\n",
    );
  });

  test("marks a busy machine, a changed tree and a quick run", () => {
    const disturbed: NamedRun = {
      ...newer,
      run: { ...newer.run, changed: true, quick: true },
      machine: { ...newer.machine, busy_percent: 60 },
    };
    const text = reportFiles([disturbed]).get("REPORT.md");
    expect(text).toContain("0123456789ab with changes, quick run");
    expect(text).toContain("**busy**, 60 % in use");
  });
});

describe("the simulations of a report", () => {
  const record: NamedSimulation = {
    name: "long",
    simulation: {
      ...{ at: "2026-01-03T10:00:00.000Z", commit: "0123456789ab", changed: false },
      ...{ first_seed: 7, size: 6, minutes: 12.5, ended: true },
    },
    machine: MACHINE,
    counts: {
      ...{ seeds: 200, signing_seeds: 100, encrypted_seeds: 50, commands: 123_456, reads: 65_432 },
      ...{
        versions: 40_000,
        spooled_commands: 321,
        launched_agents: 210,
        simulated_ms: 7_200_000,
        kills: 4_321,
        store_faults: 987,
      },
      refused_zombie_writes: 654,
    },
    failing_seed: null,
  };
  const pageWith = (...records: readonly NamedSimulation[]): string =>
    reportFiles([], records).get("REPORT.md")!;

  test("are shown with their counts and outcome", () => {
    expect(pageWith()).not.toContain("## Simulations");
    const [, cells] = /^(\| \[long\].*)$/m.exec(pageWith(record))!;
    expect(cells!.split("|").map((cell) => cell.trim())).toEqual([
      ...[
        "",
        "[long](../simulation/results/long.json)",
        "2026-01-03 10:00 UTC",
        "0123456789ab",
        "no violation",
      ],
      ...[
        "123,456",
        "65,432",
        "200",
        "50",
        "25",
        "321",
        "210",
        "2",
        "4,321",
        "987",
        "654",
        "12.5 min on 2 cores",
        "",
      ],
    ]);
  });

  test("say that one was stopped or found a violation", () => {
    const stopped = { ...record, simulation: { ...record.simulation, ended: false } };
    expect(pageWith(stopped)).toContain("| no violation until it was stopped |");
    expect(pageWith({ ...record, failing_seed: 9 })).toContain("| **violation**, seed 9 |");
  });
});

test.each([
  [row("write", 25, "ms", { required: { below: 100 }, aim: null }), 25],
  [row("commits", 4_000, "/s", { required: { at_least: 2_000 }, aim: null }), 50],
  [row("failed", 0, "requests", TARGETS.failed), undefined],
  [row("size", 4, "KB"), undefined],
  [row("unknown", null, "ms", TARGETS.write), undefined],
  [judgedQuickly(row("write", 250, "ms", TARGETS.write)), undefined],
])("the share of its limit, %o", (given, share) => expect(shareOfLimit(given)).toBe(share));
