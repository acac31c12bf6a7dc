import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";
import { type CpuProfile, monotonicUs, profileFlags, readProfiles, runs, samplesByPart } from "./profile.ts";

const urlOf = (path: string): string => pathToFileURL(join(projectRoot, path)).href;

/** The main function calls one of the store, which calls native code. */
const profile: CpuProfile = {
  nodes: [
    { id: 1, callFrame: { functionName: "(root)", url: "" }, children: [2, 3, 6] },
    { id: 2, callFrame: { functionName: "(idle)", url: "" } },
    { id: 3, callFrame: { functionName: "main", url: urlOf("services/writer/writer.ts") }, children: [4] },
    { id: 4, callFrame: { functionName: "read", url: urlOf("shared/store/store.ts") }, children: [5] },
    { id: 5, callFrame: { functionName: "get", url: "" } },
    { id: 6, callFrame: { functionName: "pack", url: urlOf("node_modules/msgpackr/pack.js") } },
  ],
  startTime: 1_000,
  samples: [3, 4, 5, 2, 6, 3],
  timeDeltas: [0, 10, 10, 10, 10, 10],
};

test("counts the samples of a time by part", () => {
  expect(samplesByPart(profile, { from: 1_010, to: 1_050 })).toEqual(
    new Map([
      ["store layer", 2],
      ["encoding", 1],
    ]),
  );
});

test("knows the program of a thread", () => {
  expect(runs(profile, "services/writer/writer.ts")).toBe(true);
  expect(runs(profile, "shared/store/lmdb/worker.ts")).toBe(false);
});

test("Node's profile of a process has samples at the times of its work", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-profile-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const from = monotonicUs();
  // By processor time, because a busy machine gives a process little of it.
  const work = "while (process.cpuUsage().user < 300_000) for (let i = 0; i < 100_000; i += 1);";
  const child = spawn(process.execPath, [...profileFlags(folder), "--input-type=module", "-e", work]);
  await once(child, "exit");
  const to = monotonicUs();
  expect(readProfiles(folder, child.pid! + 1)).toEqual([]);
  const [found] = readProfiles(folder, child.pid!);
  const count = (span: { from: number; to: number }) =>
    [...samplesByPart(found!, span).values()].reduce((sum, one) => sum + one, 0);
  expect(count({ from, to })).toBeGreaterThan(10);
  expect(count({ from: 0, to: from })).toBe(0);
  expect(count({ from: to, to: Number.POSITIVE_INFINITY })).toBe(0);
});
