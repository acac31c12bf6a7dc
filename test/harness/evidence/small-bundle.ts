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
  { lines = [], proofs = [], keys = [], note, anchors, access }: SmallBundle,
): void {
  const of = { tenant: TENANT, exported_at: EXPORTED_AT, fleet: null, tool: "x" };
  const tasks = lines.filter((one) => "kind" in one && one.kind === "task").length;
  const body = redigested([
    { ...of, kind: "header", format: 5 },
    ...lines,
    { kind: "trailer", tasks, unreadable: 0 },
  ]);
  const files: [string, Buffer][] = Object.entries({
    "export.jsonl": body,
    "proofs.jsonl": proofs.map(line).join(""),
    "keyset.json": line({ keys, changes: null, signatures_required: false }),
    ...(note !== undefined && { "log.note": note }),
    ...(anchors !== undefined && { "anchors.jsonl": anchors.map(line).join("") }),
    ...(access !== undefined && { "access.jsonl": access.map(line).join("") }),
  }).map(([name, text]) => [name, Buffer.from(text)]);
  const listed = files.map(([name, bytes]) => ({ name, size: bytes.length, sha256: sha256(bytes) }));
  const counts = {
    ...{ tasks, lines: lines.length + 2, keys: keys.length, key_changes: 0, versions: 0 },
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

/** `authorities`: a file with certificates, and its content. */
export function judgeSmallBundle(
  path: string,
  authorities: { readonly caFile: string; readonly ca: string } | null = null,
): BundleReport & { readonly codes: readonly string[] } {
  const report = verifyBundle(path, { keys: null, kept: null, authorities: authorities?.ca ?? null });
  if (hasPython) {
    const args = [
      VERIFY_PY,
      path,
      "--json",
      ...(authorities === null ? [] : ["--tsa-ca", authorities.caFile]),
    ];
    const { stdout, stderr } = spawnSync("python3", args, { encoding: "utf8", maxBuffer: 2 ** 26 });
    expect(stderr).toBe("");
    expect(JSON.parse(stdout)).toEqual(report);
  }
  // No fleet has sealed it.
  const found = report.findings.filter(({ code }) => code !== "seal_missing");
  return { ...report, codes: found.map(({ at, code }) => `${code} ${at}`) };
}
