// The access log in a bundle of a real fleet: what both verifiers prove of it, and what they find when a holder of a key changes it.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { canonicalText } from "../../../../shared/integrity/canonical.ts";
import { signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import {
  type BundleReport,
  verifyBundle,
} from "../../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import {
  ACCESS_FILE,
  cutAfter,
  rewriteBlocks,
  withAccess,
} from "../../../harness/evidence/access-tampers.ts";
import { type EvidenceFleet, startEvidenceFleet } from "../../../harness/evidence/evidence-fleet.ts";
import {
  type Any,
  type BundleParts,
  envelope,
  linesOf,
  rehashed,
  sha256,
  unpacked,
} from "../../../harness/evidence/forgery.ts";
import { sealedAgain, withoutNewestBlocks } from "../../../harness/evidence/seal-tampers.ts";

const LONG_MS = 600_000;
const VERIFY_PY = fileURLToPath(new URL("../../../../shared/transfer/bundle/verify.py", import.meta.url));
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

let fleet: EvidenceFleet;
let folder: string;
let parts: BundleParts;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-bundle-access-"));
  fleet = await startEvidenceFleet();
  // Each round adds a block at least, which the key of now signs. There may be some of older keys already.
  const newestBlock = async () => (await fleet.client.admin.accessLog.blocks({ limit: 1 })).head?.seq ?? 0;
  for (let n = 0; n < 4; n += 1) {
    const before = await newestBlock();
    expect(await fleet.client.getLatestCheckpoint("auth")).not.toBeNull();
    await vi.waitUntil(async () => (await newestBlock()) > before, { timeout: 60_000, interval: 50 });
  }
  expect(await fleet.run("export", "--all", "--bundle", join(folder, "all.tar"))).toMatchObject({ exit: 0 });
  parts = unpacked(readFileSync(join(folder, "all.tar")));
}, LONG_MS);
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await fleet?.stop();
});

/** The report of both verifiers. */
function judged(archive: Buffer): BundleReport {
  const path = join(folder, "judged.tar");
  writeFileSync(path, archive);
  const report = verifyBundle(path, { keys: new Set(fleet.keys), kept: null });
  if (hasPython) {
    const keys = fleet.keys.flatMap((id) => ["--key", id]);
    const run = spawnSync("python3", [VERIFY_PY, path, ...keys, "--json"], { encoding: "utf8" });
    expect(run.stderr).toBe("");
    expect(JSON.parse(run.stdout)).toEqual(report);
  }
  return report;
}

/** What is found besides the seal and the numbers of the manifest, which both show that something was changed. */
function found(lines: readonly Any[]): string[] {
  const { findings } = judged(rehashed(withAccess(parts, lines)));
  return findings.flatMap(({ at, code }) =>
    at === "seal.json" || code === "count" ? [] : [`${code} ${at}`],
  );
}

const access = (): Any[] => linesOf(parts, ACCESS_FILE);
const blocksOf = (lines: readonly Any[]): Any[] => lines.filter(({ kind }) => kind === "block");
/** The newest three, which the key of now has signed. */
const newest = (): Any[] => blocksOf(access()).slice(-3);

/** An act of the chain of the tenant, signed with the key that the fleet has now. */
function statement(block: number, hash: string, seq = 1_000): Any {
  const key = signingKeyFrom(readFileSync(join(fleet.server.home, "signing-key.pem"), "utf8"));
  const facts = {
    ...{ action: "access_log", actor: { id: "reader", type: "service" }, at: new Date().toISOString() },
    ...{ prev: "0".repeat(64), seq, signed_by: key.id, subject: { block, hash }, tenant: "default", v: 2 },
  };
  const entry = canonicalText(facts);
  return {
    kind: "statement",
    seq,
    end: seq,
    entry,
    signature: envelope(key, { ...facts, task: null }, sha256(entry)),
  };
}

test("a bundle of all tasks has the whole log, and one of some tasks only if it is asked for", {
  timeout: LONG_MS,
}, async () => {
  const report = judged(readFileSync(join(folder, "all.tar")));
  expect(report).toMatchObject({ ok: true, sealed: true, access_complete: true });
  expect(report.counts.access_blocks).toBe(blocksOf(access()).length);
  expect(report.counts.access_records).toBeGreaterThan(0);
  expect(report.counts.access_lost).toBe(0);
  const page = String(parts.get("report.html"));
  expect(page).toMatch(/<h2>Access log<\/h2>[\s\S]*writer-1[\s\S]*query\.latest/);
  const files = async (name: string, ...args: string[]) => {
    const path = join(folder, name);
    expect(await fleet.run("export", ...args, "--bundle", path)).toMatchObject({ exit: 0 });
    return [...unpacked(readFileSync(path)).keys()];
  };
  expect(await files("task.tar", "--task", "auth")).not.toContain(ACCESS_FILE);
  expect(await files("with.tar", "--task", "auth", "--access-log")).toContain(ACCESS_FILE);
  expect(await files("without.tar", "--all", "--no-access-log")).not.toContain(ACCESS_FILE);
  expect(await fleet.run("export", "--all", "--access-log")).toMatchObject({ exit: 64 });
  const shown = await fleet.run("export", "verify", join(folder, "all.tar"));
  expect(shown.out).toMatch(
    /Access log: +\d+ reads and refusals in \d+ blocks.*, to its end, as the fleet compared/,
  );
});

test("the seal states the newest block, so a log without it is found also with a valid seal", {
  timeout: LONG_MS,
}, () => {
  const key = signingKeyFrom(readFileSync(join(fleet.server.home, "signing-key.pem"), "utf8"));
  const sealed = (changed: BundleParts, changes: Readonly<Record<string, unknown>>) => {
    const { ok, sealed: isSealed, access_complete, findings } = judged(sealedAgain(changed, key, changes));
    return { ok, isSealed, access_complete, found: findings.map(({ at, code }) => `${code} ${at}`) };
  };
  expect(sealed(parts, {})).toEqual({ ok: true, isSealed: true, access_complete: true, found: [] });
  const cut = withoutNewestBlocks(parts, 2);
  const refused = {
    ...{ ok: false, isSealed: true, access_complete: false },
    found: ["access_unsealed access.jsonl"],
  };
  // The seal is that of the whole log, or of a request that names none.
  expect(sealed(cut, {})).toEqual(refused);
  const none = { access_seq: undefined, access_hash: undefined };
  expect(sealed(cut, none)).toEqual(refused);
  expect(sealed(parts, none)).toEqual(refused);
  // The end of an earlier time, in a bundle that says it is of now.
  expect(sealed(parts, { exported_at: "2026-01-01T00:00:00.000Z" })).toMatchObject({
    ...{ ok: false, isSealed: false, access_complete: false },
    found: ["seal seal.json"],
  });
});

test("the fleet refuses to seal a log without its newest block", { timeout: LONG_MS }, async () => {
  const { admin } = fleet.client;
  const [, second, third] = newest();
  // All blocks of the bundle are older, and none that is written now.
  const exported_at = new Date(Date.parse(JSON.parse(third.entry).at) + 30_001).toISOString();
  const { head } = await admin.accessLog.blocks({ limit: 1 });
  const record = (access: { readonly seq: number; readonly hash: string }, at = exported_at) =>
    admin.recordExport({
      ...{ manifest: "0".repeat(64), tasks: 0, entries: 0 },
      access: { exported_at: at, ...access },
    });
  const place = ({ seq, entry }: Any) => ({ seq, hash: sha256(entry) });
  for (const access of [
    place(second),
    { ...place(second), hash: "0".repeat(64) },
    { seq: 0, hash: "0".repeat(64) },
    { seq: head!.seq + 1_000, hash: head!.hash },
  ])
    await expect(record(access)).rejects.toMatchObject({ code: "INVALID" });
  // Of the time of the block, when the later ones were not there yet.
  const earlier = JSON.parse(second.entry).at;
  const { entry } = await record(place(second), earlier);
  expect(JSON.parse(entry).subject).toMatchObject({
    ...{ access_seq: second.seq, access_hash: sha256(second.entry), exported_at: earlier },
  });
  const ends = { exported_at, extent: "tasks" as const, tasks: [], unreadable: [] };
  const mixed = { ...{ manifest: "0".repeat(64), tasks: 0, entries: 0 }, ends };
  const access = { exported_at: earlier, ...place(second) };
  await expect(admin.recordExport({ ...mixed, access })).rejects.toMatchObject({ code: "INVALID" });
});

test("blocks that were changed, removed or left out are found", { timeout: LONG_MS }, () => {
  const [, second] = newest();
  const edited = access();
  rewriteBlocks(edited, second.seq, null);
  expect(found(edited)).toContain(`signature_mismatch =access/${second.seq}`);
  const at = access().findIndex(({ seq }) => seq === second.seq);
  expect(found(access().toSpliced(at, 1))).toEqual([`chain access.jsonl:${at + 1}`]);
  const unsigned = access();
  delete unsigned[at].signature;
  expect(found(unsigned).length).toBeGreaterThan(0);
  // The first block, as retention would remove it, but no block states it.
  const beheaded = access();
  const [first] = beheaded.splice(1, 1);
  beheaded[0].start = { seq: first.seq, hash: sha256(first.entry) };
  expect(found(beheaded)).toEqual([`access_cut =access/${first.seq + 1}`]);
});

test("a chain that a thief of a revoked key has written again is not proved", { timeout: LONG_MS }, () => {
  const [, second] = newest();
  const key = signingKeyFrom(fleet.revokedPem);
  const [{ keys }] = linesOf(parts, "keyset.json");
  const { revoked_at } = keys.find((one: Any) => one.key_id === key.id);
  const lines = access();
  rewriteBlocks(lines, second.seq, { key, at: new Date(Date.parse(revoked_at) - 1).toISOString() });
  expect(found(lines)).toContain(`unproved =access/${second.seq}`);
});

test("a log that differs from what the chain of the tenant states of it is found", {
  timeout: LONG_MS,
}, () => {
  const [, second, third] = newest();
  const stated = (...statements: readonly Any[]) => {
    const lines = access();
    lines.splice(1, 0, ...statements);
    return lines;
  };
  const sound = statement(third.seq, sha256(third.entry));
  expect(found(stated(sound))).toEqual([]);
  // The end was cut off.
  const cut = stated(sound);
  cutAfter(cut, second.seq);
  expect(found(cut)).toEqual([`access_contradicted =access/${third.seq}`]);
  expect(found(stated(statement(second.seq, "0".repeat(64))))).toEqual([
    `access_contradicted =access/${second.seq}`,
  ]);
  const forged = statement(second.seq, sha256(second.entry));
  forged.signature = sound.signature;
  expect(found(stated(forged))).toEqual(["signature_mismatch access.jsonl:2"]);
  expect(found(stated(sound, statement(second.seq, sha256(second.entry), 999)))).toEqual([
    "line access.jsonl:3",
  ]);
});
