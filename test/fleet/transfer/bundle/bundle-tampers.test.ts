// A thousand tampers with a bundle of a real fleet: both verifiers find each one, and report the same.

import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import {
  type BundleReport,
  verifyBundle,
} from "../../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import { TimestampAuthority } from "../../../harness/anchors/timestamp-authority.ts";
import { accessTampers } from "../../../harness/evidence/access-tampers.ts";
import { anchorTampers } from "../../../harness/evidence/anchor-tampers.ts";
import { type EvidenceFleet, startEvidenceFleet } from "../../../harness/evidence/evidence-fleet.ts";
import { seeded } from "../../../harness/evidence/forgery.ts";
import { personTampers } from "../../../harness/evidence/person-tampers.ts";
import { plainTampers } from "../../../harness/evidence/plain-tampers.ts";
import { revocationTampers } from "../../../harness/evidence/revocation-tampers.ts";
import { sealTampers } from "../../../harness/evidence/seal-tampers.ts";
import { type Tamper, tampers } from "../../../harness/evidence/tampers.ts";
import { newKey } from "../../../harness/records/signed.ts";

const TAMPERS = 1_000;
/** Of one run of the verifier in Python, which remembers signatures. They are on disk at the same time. */
const BATCH = 250;
const SEED = 17;
const ACCESS_BLOCKS = 3;
const LONG_MS = 900_000;

const VERIFY_PY = fileURLToPath(new URL("../../../../shared/transfer/bundle/verify.py", import.meta.url));
const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

let fleet: EvidenceFleet;
let folder: string;
let bundle: string;
let newer: string;
let otherAuthority: TimestampAuthority;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "fleet-tampers-"));
  fleet = await startEvidenceFleet();
  otherAuthority = await TimestampAuthority.start();
  bundle = join(folder, "bundle.tar");
  newer = join(folder, "newer.txt");
  await fillAccessLog();
  const exported = await fleet.run("export", "--all", "--bundle", bundle);
  expect(exported).toMatchObject({ exit: 0, err: "" });
  // The seal is an entry of the log too, some seconds later.
  const { log_size } = verifyBundle(bundle, trust());
  const isGrown = async () =>
    JSON.parse((await fleet.run("audit", "log", "--out", newer, "--json")).out).size > log_size!;
  await vi.waitUntil(isGrown, { timeout: 60_000, interval: 500 });
}, LONG_MS);
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true });
  await otherAuthority?.close();
  await fleet?.stop();
});

/** Reads until the access log has blocks enough to be cut: reads of the same moment share one. */
async function fillAccessLog(): Promise<void> {
  const isFull = async () => {
    expect(await fleet.client.getLatestCheckpoint("auth")).not.toBeNull();
    const { head } = await fleet.client.admin.accessLog.blocks({ limit: 1 });
    return (head?.seq ?? 0) >= ACCESS_BLOCKS;
  };
  await vi.waitUntil(isFull, { timeout: 60_000, interval: 200 });
}

const trust = () => ({ keys: new Set(fleet.keys), kept: null, authorities: fleet.authority.ca });

/** The reports of verify.py, in the order of the bundles. */
function pythonReports(paths: readonly string[], ...args: string[]): BundleReport[] {
  const keys = fleet.keys.flatMap((id) => ["--key", id]);
  const run = spawnSync(
    "python3",
    [VERIFY_PY, ...paths, ...keys, "--tsa-ca", fleet.authority.caFile, ...args, "--json"],
    {
      encoding: "utf8",
      maxBuffer: 2 ** 28,
    },
  );
  expect(run.stderr).toBe("");
  return run.stdout
    .trimEnd()
    .split("\n")
    .map((text) => JSON.parse(text));
}

/** Two logins and a passkey. */
const SIGNED = [
  { printed_name: "Ada Lovelace", meaning: "approval", method: "oidc", version: 1, newest_version: 2 },
  { zone: "Europe/London" },
  { method: "webauthn" },
];

/** The codes that the tampers lead to, among others. */
const EXPECTED = [
  "archive",
  "files",
  "file_hash",
  "manifest",
  "keyset",
  "key_unproved",
  "key_untrusted",
  "key_revoked",
  "time_contradicted",
  "log_invalid",
  "line",
  "order",
  "chain",
  "version",
  "head",
  "count",
  "digest",
  "proof_invalid",
  "proof_order",
  "signature_invalid",
  "signature_moved",
  "signature_missing",
  "signature_mismatch",
  "seal",
  "seal_missing",
  "access_unsealed",
  "format",
  "esign_statement",
  "esign_proof",
  "esign_mismatch",
  "esign_moved",
  "esign_unrecorded",
  "esign_passkey",
  "truncated",
  "unproved",
  "anchor",
  "anchor_invalid",
  "limit",
  "anchor_unproved",
  "anchor_longer",
  "anchor_forked",
  "timestamp_invalid",
  "timestamp_untrusted",
  "timestamp_missing",
  "postdated",
  "backdated",
];

test("both verifiers find each of a thousand tampers, with the same codes", { timeout: LONG_MS }, () => {
  const archive = readFileSync(bundle);
  expect(verifyBundle(bundle, trust())).toMatchObject({
    ...{ ok: true, sealed: true, access_complete: true },
    electronic_signatures: SIGNED,
    anchors: [
      { target: "folder", time: "stated" },
      { target: "timestamp", time: "verified" },
    ],
  });
  const keys = { own: newKey(), stolen: signingKeyFrom(fleet.revokedPem) };
  const anchors = anchorTampers({ ...keys, authority: fleet.authority, otherAuthority });
  const current = signingKeyFrom(readFileSync(join(fleet.server.home, "signing-key.pem"), "utf8"));
  const others = [
    ...anchors,
    ...accessTampers(keys.stolen),
    ...sealTampers(current),
    ...personTampers(),
    ...revocationTampers(keys),
    ...plainTampers,
  ];
  const found = new Set<string>();
  let batch: { readonly tamper: Tamper; readonly path: string; readonly report: BundleReport }[] = [];
  const compare = () => {
    if (batch.length === 0) return;
    const reports = hasPython ? pythonReports(batch.map(({ path }) => path)) : [];
    for (const [i, report] of reports.entries())
      expect(report, batch[i]!.tamper.kind).toEqual(batch[i]!.report);
    for (const { path } of batch) rmSync(path);
    batch = [];
  };
  let n = 0;
  for (const tamper of tampers(archive, seeded(SEED), TAMPERS, { ...keys, others })) {
    const path = join(folder, `${n++}.tar`);
    writeFileSync(path, tamper.bytes);
    const report = verifyBundle(path, trust());
    expect(report.ok, tamper.kind).toBe(false);
    const codes = report.findings.map(({ code }) => code);
    for (const code of codes) found.add(code);
    if (tamper.isProvedTwice)
      expect(
        codes.filter((code) => !code.startsWith("seal")),
        tamper.kind,
      ).not.toEqual([]);
    batch.push({ tamper, path, report });
    if (batch.length === BATCH) compare();
  }
  compare();
  expect(n).toBe(TAMPERS);
  expect(EXPECTED.filter((code) => !found.has(code))).toEqual([]);
});

test("an older bundle is found with a newer checkpoint", { timeout: LONG_MS }, () => {
  const report = verifyBundle(bundle, { ...trust(), kept: readFileSync(newer, "utf8") });
  expect(report).toMatchObject({ continues: false, findings: [{ at: "log.note", code: "log_older" }] });
  if (hasPython) expect(pythonReports([bundle], "--checkpoint", newer)).toEqual([report]);
});
