/**
 * A short rolling upgrade, and the way back: every process of the previous release is replaced by one of this tree while agents with the SDK
 * of both trees work. `npm run faults -- --rounds upgrade --minutes 5` replaces one process at a time, again and again.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { expect, test } from "vitest";
import { projectRoot } from "../../harness/project-root.ts";
import type { RoundResult } from "../faults/round.ts";

test("no command is lost, and no agent sees an error, while every process is upgraded and downgraded", async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-upgrade-"));
  let child: ChildProcessByStdio<null, Readable, Readable> | undefined;
  try {
    const json = join(folder, "report.json");
    const args = ["test/fleet/faults/main.ts", "--rounds", "upgrade", "--minutes", "0.1", "--seed", "31"];
    child = spawn(process.execPath, [...args, "--json", json], {
      cwd: projectRoot,
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => {
        output += chunk.toString();
      });
    const [code] = (await once(child, "close")) as [number | null];
    const line = output.split("\n").find((one) => one.includes("of the same tree"));
    if (line !== undefined) process.stderr.write(`${line}\n`);
    expect(code, output).toBe(0);
    const report = JSON.parse(readFileSync(json, "utf8")) as { violations: number; rounds: RoundResult[] };
    const [round] = report.rounds as [RoundResult];
    expect(report.violations, output).toBe(0);
    expect(round.faults).toEqual({ upgrade: 10, downgrade: 10 });
    expect(round.restarts).toEqual({ after_kill: 0, own: 0 });
    expect(round.checked.audit_entries).toBeGreaterThan(50);
    expect(round.checked.reads).toBeGreaterThan(20);
    expect(round.handoffs.ends.confirmed ?? 0).toBeGreaterThan(0);
    expect(round.recoveries.failed).toBe(0);
  } finally {
    // At the second signal it ends at once, with its fleet.
    for (let n = 0; n < 2 && child?.exitCode === null; n += 1) child.kill("SIGTERM");
    rmSync(folder, { recursive: true, force: true });
  }
}, 600_000);
