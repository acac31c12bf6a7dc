// `fleet export verify` of a bundle: the same verification as the program in the bundle, and the states to which the trails lead.

import { closeSync, openSync } from "node:fs";
import { ERROR_TABLE } from "../../../../../shared/protocol/errors.ts";
import { memberLines, readArchive } from "../../../../../shared/transfer/bundle/offline/archive.ts";
import {
  type BundleReport,
  verifyBundle,
} from "../../../../../shared/transfer/bundle/offline/bundle-verifier.ts";
import { certificateText } from "../../../../../shared/transfer/bundle/offline/verify-program.ts";
import type { ReadablePath } from "../../../../../shared/transfer/encryption/encrypted-export.ts";
import { ExportFault } from "../../../../../shared/transfer/export-line.ts";
import { ExportVerifier } from "../../../../../shared/transfer/export-verifier.ts";
import type { Session } from "../../../runtime/session.ts";
import { UsageError } from "../../../runtime/usage.ts";

const MAGIC = Buffer.from("ustar");
const MAGIC_AT = 257;

/** Whether the file is a tar, and then whether it is encrypted. Throws what the keys of an encrypted file are refused with. */
export async function isBundle(source: ReadablePath): Promise<"plain" | "encrypted" | false> {
  const file = await source.open().catch((error: NodeJS.ErrnoException) => {
    // The reader of the lines names the problem.
    if (error.syscall !== undefined) return null;
    throw error;
  });
  if (file === null) return false;
  try {
    if (!(await file.read(MAGIC_AT, MAGIC.length)).equals(MAGIC)) return false;
    return file.isEncrypted ? "encrypted" : "plain";
  } catch (error) {
    // It is a folder, for example.
    if ((error as NodeJS.ErrnoException).syscall !== undefined) return false;
    throw error;
  } finally {
    await file.close();
  }
}

function withFile<T>(path: string, work: (file: number) => T): T {
  const file = openSync(path, "r");
  try {
    return work(file);
  } finally {
    closeSync(file);
  }
}

interface Trust {
  readonly key?: readonly string[];
  readonly revoked?: readonly string[];
  readonly checkpoint?: string;
  readonly tsaCa?: string;
}

export async function verifyBundleFile(
  session: Session,
  path: string,
  { key, revoked = [], checkpoint, tsaCa }: Trust,
): Promise<void> {
  const kept = checkpoint === undefined ? null : await keptText(checkpoint);
  const report = judgeBundle(path, {
    keys: key === undefined ? null : new Set(key),
    revoked: new Set(revoked),
    kept,
    authorities: tsaCa === undefined ? null : authoritiesIn(tsaCa),
  });
  await showReport(session, path, report);
}

/** The report of the offline verifiers, with a finding where the state of a task does not follow from its trail. */
export function judgeBundle(path: string, trust: Parameters<typeof verifyBundle>[1]): BundleReport {
  const report = verifyBundle(path, trust);
  const problem = report.ok ? withFile(path, stateProblem) : null;
  if (problem === null) return report;
  return { ...report, ok: false, findings: [{ at: `export.jsonl:${problem.line}`, code: "state" }] };
}

function stateProblem(file: number): ExportFault | null {
  const member = readArchive(file).members.find(({ name }) => name === "export.jsonl");
  const verifier = new ExportVerifier();
  try {
    for (const line of member === undefined ? [] : memberLines(file, member))
      if (line !== null) verifier.add(line);
    verifier.end();
    return null;
  } catch (error) {
    if (error instanceof ExportFault) return error;
    throw error;
  }
}

export async function keptText(path: string): Promise<string> {
  const { readFile } = await import("node:fs/promises");
  return readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      `${path} cannot be read: ${error.code}`,
      "Give the file of a checkpoint of the audit log.",
    );
  });
}

function authoritiesIn(path: string): string {
  try {
    return certificateText(path);
  } catch {
    throw new UsageError(
      `${path} has no certificates that can be read`,
      "Give the certificates of the time-stamp authority in PEM.",
    );
  }
}

export async function showReport(session: Session, path: string, report: BundleReport): Promise<void> {
  if (!report.ok) session.exitCode = ERROR_TABLE.CORRUPT.exit;
  const { renderBundle } = await import("../../../rendering/transfer/bundle.ts");
  await session.show({ file: path, ...report }, () => renderBundle(path, report, session.view));
}

export const unwritableBundle = (path: string, { code }: NodeJS.ErrnoException): UsageError =>
  new UsageError(`${path} cannot be written: ${code}`, "Give a file in a folder that you may write to.");
