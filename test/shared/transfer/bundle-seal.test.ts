/** The seal of a bundle: what a holder of a sealed one, or a caller that has another manifest sealed, can change without a finding. Nothing: the verifiers agree. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import { sealBytes } from "../../../shared/transfer/bundle/bundle-files.ts";
import { type BundleReport, verifyBundle } from "../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import {
  type Any,
  type BundleParts,
  envelope,
  line,
  linesOf,
  mtimeOf,
  packed,
  rehashed,
  sha256,
  unpacked,
  withFile,
} from "../../harness/evidence/forgery.ts";
import { joinedNames, withFurtherMember } from "../../harness/evidence/seal-tampers.ts";
import { EXPORTED_AT, hasPython, TENANT, writeSmallBundle } from "../../harness/evidence/small-bundle.ts";
import { newKey } from "../../harness/records/signed.ts";

const LONG_MS = 100_000;
const REPORT = "report.html";
const own = newKey();

const programOf = (name: string) =>
  fileURLToPath(new URL(`../../../shared/transfer/bundle/${name}`, import.meta.url));
const PROGRAMS = [
  { name: "verify.mjs", command: process.execPath },
  ...(hasPython ? [{ name: "verify.py", command: "python3" }] : []),
];

let folder: string;
/** A bundle with a report and a key, and no seal. */
let parts: BundleParts;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-seal-"));
  const path = join(folder, "small.tar");
  const of = { owner: "writer", purpose: "commits", not_before: "2026-02-01T00:00:00.000Z" };
  const ends = { not_after: null, revoked_at: null, revoked_reason: null, replaces: null };
  const key = { key_id: own.id, algorithm: "ed25519", public_key: own.publicKey, ...of, ...ends };
  writeSmallBundle(path, { keys: [key] });
  const { "manifest.json": manifest, ...files } = Object.fromEntries(unpacked(readFileSync(path)));
  const all = {
    ...files,
    [REPORT]: Buffer.from("<h1>Nothing was approved</h1>"),
    "manifest.json": manifest!,
  };
  parts = unpacked(rehashed(new Map(Object.entries(all))));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The bundle with a manifest of this form, sealed by the key. */
function sealed(manifest: Any): BundleParts {
  const bytes = line(manifest);
  const facts = {
    ...{ action: "export", at: EXPORTED_AT, prev: "0".repeat(64), seq: 1, signed_by: own.id, v: 1 },
    ...{ subject: { entries: 0, manifest: sha256(bytes), tasks: 0 }, tenant: TENANT },
  };
  const entry = canonicalText(facts);
  const signature = envelope(own, { ...facts, task: null }, sha256(entry));
  return withFile(withFile(parts, "manifest.json", bytes), "seal.json", line({ entry, seq: 1, signature }));
}

const manifestOf = (): Any => linesOf(parts, "manifest.json")[0];

/** The report of all verifiers. */
function judged(bundle: BundleParts, keys: readonly string[] | null = [own.id]): BundleReport {
  const path = join(folder, "judged.tar");
  writeFileSync(path, packed(bundle, mtimeOf(bundle)));
  const report = verifyBundle(path, { keys: keys && new Set(keys), kept: null });
  const named = (keys ?? []).flatMap((id) => ["--key", id]);
  for (const { name, command } of PROGRAMS) {
    const run = spawnSync(command, [programOf(name), path, ...named, "--json"], { encoding: "utf8" });
    expect({ name, status: run.status, stderr: run.stderr }).toEqual({
      ...{ name, stderr: "" },
      status: report.ok ? 0 : 8,
    });
    expect(JSON.parse(run.stdout), name).toEqual(report);
  }
  return report;
}

const found = (...of: Parameters<typeof judged>): string[] =>
  judged(...of).findings.map(({ code, at }) => `${code} ${at}`);

test("a sealed bundle has no finding, and each other byte of a file is one", { timeout: LONG_MS }, () => {
  const whole = sealed(manifestOf());
  expect(judged(whole)).toMatchObject({ ok: true, sealed: true, keys: [own.id] });
  expect(found(withFile(whole, REPORT, "<h1>All was approved</h1>"))).toEqual([`file_hash ${REPORT}`]);
});

test("the manifest lists each file by its own name", { timeout: LONG_MS }, () => {
  const manifest = manifestOf();
  // One text for the names of all files: it is equal to their list if both are joined.
  const joined = sealed(joinedNames(manifest));
  expect(found(joined)).toEqual(["manifest manifest.json"]);
  const exchanged = withFile(joined, REPORT, "<h1>All was approved</h1>");
  expect(judged(exchanged)).toMatchObject({ ok: false, sealed: false });
  const lists: readonly (readonly Any[])[] = [
    manifest.files.slice(0, -1),
    [...manifest.files, manifest.files.at(-1)],
    [...manifest.files, { ...manifest.files.at(-1), name: "other.html" }],
    [...manifest.files].reverse(),
  ];
  for (const files of lists) expect(found(sealed({ ...manifest, files }))).toEqual(["files manifest.json"]);
  for (const name of ["", ".", "../report.html", "/report.html", "a\nb", "ü", "a".repeat(100)]) {
    const files = [...manifest.files, { ...manifest.files[0], name }];
    expect(found(sealed({ ...manifest, files })), name).toEqual(["manifest manifest.json"]);
  }
});

test("with --key a bundle without a seal is found, also one in which nothing is signed", {
  timeout: LONG_MS,
}, () => {
  expect(found(parts)).toEqual(["seal_missing seal.json"]);
  expect(judged(parts, null)).toMatchObject({ ok: true, keys: [], sealed: false });
  const keyset = line({ keys: [], changes: null, signatures_required: true });
  const [manifest] = linesOf(parts, "manifest.json");
  const stated = withFile(
    parts,
    "manifest.json",
    line({ ...manifest, counts: { ...manifest.counts, keys: 0 } }),
  );
  const keyless = unpacked(rehashed(withFile(stated, "keyset.json", keyset)));
  expect(found(keyless)).toEqual(["seal_missing seal.json"]);
  const other = newKey().id;
  expect(found(sealed(manifest), [other])).toEqual([`key_untrusted key:${own.id}`]);
});

test("the file of the seal has no member that nothing covers", { timeout: LONG_MS }, () => {
  const whole = sealed(manifestOf());
  for (const place of [0, 1, 2]) {
    const bundle = withFurtherMember(whole, place);
    expect(found(bundle), `${place}`).toEqual(["seal seal.json"]);
    // What a newer fleet answers besides is not written.
    const [answered] = linesOf(bundle, "seal.json");
    expect(judged(withFile(bundle, "seal.json", sealBytes(answered)))).toMatchObject({
      ok: true,
      sealed: true,
    });
  }
  const [seal] = linesOf(whole, "seal.json");
  for (const signature of [null, {}, [], { ...seal.signature, signatures: null }, "x"])
    expect(found(withFile(whole, "seal.json", line({ ...seal, signature })))).toEqual(["seal seal.json"]);
});
