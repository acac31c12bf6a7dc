/** A process is killed at any point of its commits: each entry has its signature, and no signature is without its entry. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { newSigningKeyPem, signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { openStore } from "../../../../shared/store/open.ts";
import { findingsOf, scrub } from "../../../harness/records/scrub.ts";
import { repositoryOn, storeSignedBy } from "../../../harness/records/signed.ts";

const PROGRAM = join(import.meta.dirname, "signer.program.ts");
const KILLS = 3;

/** Resolves with the commits that it reported before it was killed in the middle of others. */
async function killedAfter(commits: number, args: readonly string[]): Promise<readonly string[]> {
  const child = spawn(process.execPath, [PROGRAM, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    if (text.split("\n").length > commits) child.kill("SIGKILL");
  });
  await new Promise((resolve) => child.once("close", resolve));
  return text.split("\n").slice(0, -1);
}

test("every entry of a killed process is signed", { timeout: 100_000 }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "fleet-signer-"));
  const url = `lmdb:${folder}/store`;
  const pem = newSigningKeyPem();
  const reported: string[] = [];
  for (let kill = 1; kill <= KILLS; kill += 1) reported.push(...(await killedAfter(20 * kill, [url, pem])));
  // With the same key: the start of the scrub is an act of the same store.
  const store = storeSignedBy(await openStore(url), signingKeyFrom(pem));
  const repository = repositoryOn(store, { format: await openFormat(store) });
  const { pass } = await scrub({ store, repository });
  expect(reported.length).toBeGreaterThanOrEqual(120);
  expect(pass.checkpoints).toBeGreaterThanOrEqual(reported.length);
  expect(await findingsOf(repository)).toEqual([]);
  expect(pass.unsigned_entries).toBe(0);
  for (const id of reported.slice(-10)) {
    const { compliance } = await repository.get("default", id, undefined, { signature: true });
    expect(compliance.signature).toMatchObject({ state: "valid" });
  }
  await store.close({ drainMs: 5_000 });
  rmSync(folder, { recursive: true });
});
