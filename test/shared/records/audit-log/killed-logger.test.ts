/** A process is killed at any point of its steps: each entry is in the log exactly once, and the log is signed. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newSigningKeyPem, signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { storeSignedBy } from "../../../harness/records/signed.ts";
import { appendAll, entriesOf, logOf } from "./logs.ts";

const PROGRAM = join(import.meta.dirname, "logger.program.ts");
const KILLS = 3;

/** Kills it after so many steps, in the middle of another one. Resolves with the signal that ended it. */
async function killedAfter(steps: number, args: readonly string[]): Promise<NodeJS.Signals | null> {
  const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let lines = 0;
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    lines += chunk.split("\n").length - 1;
    if (lines >= steps) child.kill("SIGKILL");
  });
  return new Promise((resolve) => child.once("close", (_code, signal) => resolve(signal)));
}

/** `left`: the leaves of the log as the last kill left it. */
async function continuedLog(url: string, pem: string, left: readonly string[]): Promise<void> {
  const key = signingKeyFrom(pem);
  const raw = await openStore(url);
  try {
    await appendAll(storeSignedBy(raw, key));
    const { leaves, size, signed } = await logOf(raw, "default", key.publicKey);
    expect(leaves.slice(0, left.length)).toEqual(left);
    expect([...leaves].sort()).toEqual((await entriesOf(raw, "default")).sort());
    expect(new Set(leaves).size).toBe(size);
    expect(signed?.checkpoint.size).toBe(size);
  } finally {
    await raw.close({ drainMs: 5_000 });
  }
}

async function leavesIn(url: string): Promise<readonly string[]> {
  const raw = await openStore(url);
  try {
    return (await logOf(raw, "default")).leaves;
  } finally {
    await raw.close({ drainMs: 5_000 });
  }
}

test("no entry is lost and none is appended twice", { timeout: 100_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-logger-"));
  const url = `lmdb:${folder}/store`;
  const pem = newSigningKeyPem();
  try {
    let left: readonly string[] = [];
    for (let kill = 1; kill <= KILLS; kill += 1) {
      expect(await killedAfter(4 * kill, [url, pem])).toBe("SIGKILL");
      const leaves = await leavesIn(url);
      expect(leaves.length).toBeGreaterThan(left.length);
      expect(leaves.slice(0, left.length)).toEqual(left);
      left = leaves;
    }
    await continuedLog(url, pem, left);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
