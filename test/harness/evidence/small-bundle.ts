/** A bundle that no fleet has made, with the lines that a test gives it, and the verdict of both verifiers about it. */
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { BUNDLE_FORMAT } from "../../../shared/transfer/bundle/offline/bundle-manifest.ts";
import { type BundleReport, verifyBundle } from "../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import { line, packed, redigested, sha256 } from "./forgery.ts";

const VERIFY_PY = fileURLToPath(new URL("../../../shared/transfer/bundle/verify.py", import.meta.url));
const MTIME = 1_770_000_000;

export const EXPORTED_AT = "2026-02-02T02:40:00.000Z";
/** Of a tenant whose bundles have no changes of keys. */
export const TENANT = "acme";

export const hasPython = spawnSync("python3", ["--version"]).status === 0;
if (!hasPython) process.stderr.write("python3 is not on PATH: verify.py is not tested\n");

export interface SmallBundle {
  readonly tenant?: string;
  /** The changes of the keys. null: the bundle of a tenant that cannot read them. */
  readonly changes?: readonly object[] | null;
  /** Between the header and the trailer of the export. */
  readonly lines?: readonly object[];
  readonly proofs?: readonly object[];
  readonly keys?: readonly object[];
  readonly note?: string;
  readonly anchors?: readonly object[];
  readonly access?: readonly object[];
}

export function writeSmallBundle(
  path: string,
  { tenant = TENANT, changes = null, lines = [], proofs = [], keys = [], ...others }: SmallBundle,
): void {
  const { note, anchors, access } = others;
  const of = { tenant, exported_at: EXPORTED_AT, fleet: null, tool: "x" };
  const tasks = lines.filter((one) => "kind" in one && one.kind === "task").length;
  const body = redigested([
    { ...of, kind: "header", format: 5 },
    ...lines,
    { kind: "trailer", tasks, unreadable: 0 },
  ]);
  const files: [string, Buffer][] = Object.entries({
    "export.jsonl": body,
    "proofs.jsonl": proofs.map(line).join(""),
    "keyset.json": line({ keys, changes, signatures_required: false }),
    ...(note !== undefined && { "log.note": note }),
    ...(anchors !== undefined && { "anchors.jsonl": anchors.map(line).join("") }),
    ...(access !== undefined && { "access.jsonl": access.map(line).join("") }),
  }).map(([name, text]) => [name, Buffer.from(text)]);
  const listed = files.map(([name, bytes]) => ({ name, size: bytes.length, sha256: sha256(bytes) }));
  const counts = {
    ...{ tasks, lines: lines.length + 2, keys: keys.length, key_changes: changes?.length ?? 0, versions: 0 },
    ...{ entries: proofs.length, included: 0, pending: proofs.length },
  };
  const facts = {
    kind: "fleet-evidence",
    format: BUNDLE_FORMAT,
    mtime: MTIME,
    scope: {},
    counts,
    files: listed,
  };
  writeFileSync(path, packed([...files, ["manifest.json", Buffer.from(line({ ...of, ...facts }))]], MTIME));
}

/** `authorities`: a file with certificates, and its content. `revoked`: ids of keys that the auditor knows as revoked. */
export function judgeSmallBundle(
  path: string,
  authorities: { readonly caFile: string; readonly ca: string } | null = null,
  revoked: readonly string[] = [],
): BundleReport & { readonly codes: readonly string[] } {
  const trust = { keys: null, kept: null, authorities: authorities?.ca ?? null };
  const report = verifyBundle(path, { ...trust, revoked: new Set(revoked) });
  if (hasPython) {
    const args = [
      VERIFY_PY,
      path,
      "--json",
      ...(authorities === null ? [] : ["--tsa-ca", authorities.caFile]),
      ...revoked.flatMap((id) => ["--revoked", id]),
    ];
    const { stdout, stderr } = spawnSync("python3", args, { encoding: "utf8", maxBuffer: 2 ** 26 });
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toEqual(report);
  }
  // No fleet has sealed it.
  const found = report.findings.filter(({ code }) => code !== "seal_missing");
  return { ...report, codes: found.map(({ at, code }) => `${code} ${at}`) };
}
