// `fleet export --bundle`: one archive with which an auditor verifies an export without the fleet. It is written beside its
// place, verified as the auditor will do it, and then renamed, so a killed export leaves no file that looks complete.

import { createHash, randomBytes } from "node:crypto";
import { type FileHandle, open, readFile, rm } from "node:fs/promises";
import { basename } from "node:path";
import type { AuditAnchor } from "../../../../../shared/protocol/audit-anchors.ts";
import { EXPORT_ENDS_MAX } from "../../../../../shared/protocol/audit-log.ts";
import { FleetError } from "../../../../../shared/protocol/errors.ts";
import type { ExportLine, ExportLineOf, ExportScope } from "../../../../../shared/protocol/export-lines.ts";
import { parseJsonText } from "../../../../../shared/protocol/json.ts";
import type { FleetClient } from "../../../../../shared/sdk/sdk.ts";
import { keptCheckpoint } from "../../../../../shared/transfer/audit-receipt.ts";
import {
  accessReportEnd,
  accessReportPart,
  accessReportStart,
} from "../../../../../shared/transfer/bundle/access-report.ts";
import { ArchiveWriter } from "../../../../../shared/transfer/bundle/archive-writer.ts";
import {
  type AccessLine,
  jsonLine,
  keysetBytes,
  manifestBytes,
  sealBytes,
  verifierFiles,
} from "../../../../../shared/transfer/bundle/bundle-files.ts";
import {
  newestVersionsIn,
  reportEnd,
  reportPart,
  reportStart,
} from "../../../../../shared/transfer/bundle/bundle-report.ts";
import { isMemberName, memberLines } from "../../../../../shared/transfer/bundle/offline/archive.ts";
import type { BundleRevocation } from "../../../../../shared/transfer/bundle/offline/bundle-keys.ts";
import type { NamedKeys } from "../../../../../shared/transfer/encryption/encrypted-export.ts";
import { syncFolderOf } from "../../../../../shared/transfer/encryption/encrypted-writer.ts";
import { placeOnce } from "../../../../../shared/transfer/encryption/place-once.ts";
import type { ExportSummary } from "../../../../../shared/transfer/export-verifier.ts";
import { ExportVerifier } from "../../../../../shared/transfer/export-verifier.ts";
import type { Session } from "../../../runtime/session.ts";
import { UsageError } from "../../../runtime/usage.ts";
import { fillExport } from "../export-contents.ts";
import { ExportSink, nameTaken, requireFreeName } from "../export-file.ts";
import { writeAccessLog } from "./bundle-access.ts";
import { recordedAnchors, writeAnchorFile } from "./bundle-anchors.ts";
import { judgeBundle, keptText, showReport, unwritableBundle } from "./bundle-check.ts";
import { keyChanges, revocationsIn } from "./bundle-keyset.ts";
import { awaitLog, type BundledLog, writeProofs } from "./bundle-proofs.ts";

export interface BundleExtent {
  readonly scope: ExportScope;
  readonly artifacts: boolean;
  /** The file of a kept checkpoint of the log. */
  readonly checkpoint: string | undefined;
  readonly attach: readonly string[];
  /** null: the bundle is not encrypted. */
  readonly keys: NamedKeys | null;
  /** Whether it has the access log of the tenant. */
  readonly accessLog: boolean;
}

export async function exportBundle(session: Session, path: string, extent: BundleExtent): Promise<void> {
  await requireFreeName(path);
  const attached = await attachments(extent.attach);
  const kept = extent.checkpoint === undefined ? null : await keptText(extent.checkpoint);
  if (extent.keys !== null) {
    const { exportEncryptedBundle } = await import("../encryption/encrypted-bundle.ts");
    const write = (file: FileHandle) => writeArchive(session, file, { ...extent, kept, attached });
    return exportEncryptedBundle(session, path, { keys: extent.keys, kept, write });
  }
  const draft = `${path}.${randomBytes(6).toString("hex")}.part`;
  const file = await open(draft, "wx+", 0o600).catch((error: NodeJS.ErrnoException) => {
    throw unwritableBundle(path, error);
  });
  try {
    try {
      await writeArchive(session, file, { ...extent, kept, attached });
      await file.sync();
    } finally {
      await file.close();
    }
    const report = judgeBundle(draft, { keys: null, kept });
    // Never in place of a file that was made meanwhile.
    await placeOnce(draft, path).catch((error: NodeJS.ErrnoException) => {
      throw error.code === "EEXIST" ? nameTaken(path) : unwritableBundle(path, error);
    });
    await syncFolderOf(path);
    await rm(draft, { force: true });
    await showReport(session, path, report);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

interface Attachment {
  readonly name: string;
  readonly bytes: Buffer;
}

async function attachments(paths: readonly string[]): Promise<readonly Attachment[]> {
  const found = await Promise.all(
    paths.map(async (path) => {
      const name = `attachments/${basename(path)}`;
      if (!isMemberName(name))
        throw new UsageError(
          `${path} has a name that a bundle cannot hold`,
          "Use letters, digits, dots and dashes.",
        );
      const bytes = await readFile(path).catch((error: NodeJS.ErrnoException) => {
        throw new UsageError(`${path} cannot be read: ${error.code}`, "Give files that exist.");
      });
      return { name, bytes };
    }),
  );
  if (new Set(found.map(({ name }) => name)).size < found.length)
    throw new UsageError("two of the files have the same name", "Give each file once.");
  return found;
}

interface Contents extends BundleExtent {
  readonly kept: string | null;
  readonly attached: readonly Attachment[];
}

async function writeArchive(session: Session, file: FileHandle, contents: Contents): Promise<void> {
  const client = await session.client();
  const writer = new ArchiveWriter(file);
  const { header, summary } = await writeExport(session, writer, contents);
  await awaitLog(client, file, writer.member("export.jsonl"));
  const anchored = await recordedAnchors(session, client);
  const log = await logAt(session, client, contents.kept);
  const proofs = await writeProofs(session, { client, writer, file, log });
  const access = contents.accessLog ? await writeAccessLog(client, writer, session.deadline) : null;
  const keyset = await keyChanges(client, session.deadline);
  await writer.add("keyset.json", keysetBytes(keyset.list, keyset.changes));
  if (log !== null) await writer.add("log.note", Buffer.from(log.note));
  const anchors = await writeAnchorFile(session, client, { writer, log, ...anchored });
  if (log?.consistency != null) await writer.add("consistency.json", jsonLine(log.consistency));
  for (const { name, bytes } of contents.attached) await writer.add(name, bytes);
  const { tasks, entries, versions, lines } = summary;
  const changes = keyset.changes?.length ?? 0;
  const counts = {
    ...{ tasks, entries, versions, lines, ...proofs, ...access?.counts },
    keys: keyset.list.keys.length,
    key_changes: changes,
    anchors,
  };
  const logged = { logSize: log?.size ?? null, anchors: anchored.anchors };
  const revoked = revocationsIn(keyset.list, summary.signing_keys);
  await writeReport(writer, file, { header, summary, counts, revoked, ...logged });
  for (const { name, bytes } of verifierFiles()) await writer.add(name, bytes);
  const { fleet, tenant, exported_at, tool, scope } = header;
  const of = { fleet, tenant, exported_at, tool, scope, mtime: writer.mtime };
  const manifest = manifestBytes({ ...of, counts, files: [...writer.listed] });
  await writer.add("manifest.json", manifest);
  const digest = createHash("sha256").update(manifest).digest("hex");
  const ends = endsIn(file, writer.member("export.jsonl"), header);
  const facts = {
    ...{ manifest: digest, tasks, entries },
    ...(ends !== null && { ends }),
    ...(access !== null && { access: { exported_at, ...access.end } }),
  };
  const seal = await client.admin.recordExport({ ...session.deadline, ...facts });
  if (seal.signature !== null) await writer.add("seal.json", sealBytes(seal));
  await writer.finish();
}

/** Up to where the export has each task, for the fleet to compare. null: there are too many. */
function endsIn(
  file: FileHandle,
  member: ReturnType<ArchiveWriter["member"]>,
  { exported_at, scope }: ExportLineOf<"header">,
): NonNullable<Parameters<FleetClient["admin"]["recordExport"]>[0]["ends"]> | null {
  const tasks: { task_id: string; seq: number; hash: string }[] = [];
  const unreadable: string[] = [];
  for (const bytes of memberLines(file.fd, member)) {
    const line = parseJsonText(String(bytes)) as ExportLine;
    if (line.kind === "unreadable") unreadable.push(line.task_id);
    if (line.kind !== "task") continue;
    const { task_id, audit_seq: seq, audit_hash: hash } = line.task;
    tasks.push({ task_id, seq, hash });
  }
  if (tasks.length + unreadable.length > EXPORT_ENDS_MAX) return null;
  const extent = scope.tasks === null && scope.since === null ? "tenant" : "tasks";
  return { exported_at, extent, tasks, unreadable };
}

interface WrittenExport {
  readonly header: ExportLineOf<"header">;
  readonly summary: ExportSummary;
}

async function writeExport(
  session: Session,
  writer: ArchiveWriter,
  extent: BundleExtent,
): Promise<WrittenExport> {
  writer.begin("export.jsonl");
  const verifier = new ExportVerifier();
  const sink = new ExportSink(
    verifier,
    (bytes) => writer.append(bytes),
    async () => {},
  );
  const { scope, artifacts } = extent;
  await fillExport(session, sink, { scope, artifacts, isSealed: true });
  writer.mtime = Math.floor(Date.parse(verifier.header.exported_at) / 1_000);
  await writer.end();
  return { header: verifier.header, summary: verifier.summary };
}

/** The log with its signed checkpoint, and the proof that it continues the kept one. null: it is not signed. */
async function logAt(session: Session, client: FleetClient, kept: string | null): Promise<BundledLog | null> {
  const { keys } = await client.admin.signingKeys(session.deadline);
  const publicKeys = keys.map(({ public_key }) => public_key);
  const older = kept === null ? null : keptCheckpoint(kept, publicKeys);
  if (kept !== null && older === null)
    throw new UsageError(
      "the kept checkpoint is not signed with a key of the fleet",
      "Give a file that `audit log --out` wrote.",
    );
  const since = older === null ? {} : { sinceSize: older.size };
  const state = await client.admin.auditLog({ ...session.deadline, ...since });
  const { size, checkpoint: note, consistency } = state;
  if (note === null) return null;
  if (older !== null && consistency == null)
    throw new FleetError("CORRUPT", "the audit log is shorter than the kept checkpoint", {
      details: { kept: older.size, size },
    });
  const proof = older === null ? null : { size: older.size, proof: consistency ?? [] };
  return { size, note, consistency: proof, publicKeys };
}

interface ReportParts extends WrittenExport {
  readonly counts: Readonly<Record<string, number>>;
  readonly logSize: number | null;
  readonly anchors: readonly AuditAnchor[];
  readonly revoked: readonly BundleRevocation[];
}

async function writeReport(
  writer: ArchiveWriter,
  file: FileHandle,
  { header, summary, counts, logSize, anchors, revoked }: ReportParts,
): Promise<void> {
  const { tenant, fleet, exported_at, by, tool } = header;
  const member = writer.member("export.jsonl");
  const files = [...writer.listed];
  const facts = { tenant, fleet, exported_at, by, tool, keys: summary.signing_keys };
  const of = { ...facts, revoked, logSize, anchors, counts, files };
  const lines = function* (): Generator<ExportLine> {
    for (const line of memberLines(file.fd, member)) yield parseJsonText(String(line)) as ExportLine;
  };
  const newest = newestVersionsIn(lines());
  writer.begin("report.html");
  await writer.append(Buffer.from(reportStart(of)));
  for (const line of lines()) await writer.append(Buffer.from(reportPart(line, newest)));
  if (files.some(({ name }) => name === "access.jsonl")) {
    await writer.append(Buffer.from(accessReportStart()));
    for (const line of memberLines(file.fd, writer.member("access.jsonl")))
      await writer.append(Buffer.from(accessReportPart(parseJsonText(String(line)) as AccessLine)));
    await writer.append(Buffer.from(accessReportEnd()));
  }
  await writer.append(Buffer.from(reportEnd()));
  await writer.end();
}
