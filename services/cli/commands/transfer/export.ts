// `fleet export`: whole tasks as JSON Lines, with their audit trails and all versions, and the offline proof of such a file.

import { type Command, Option } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import type { ExportScope } from "../../../../shared/protocol/export-lines.ts";
import type { NamedKeys } from "../../../../shared/transfer/encryption/encrypted-export.ts";
import { revokedKeyOption, trustedKeyOption } from "../../input/key-id.ts";
import { parseMoment } from "../../input/moment.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { decryptOption, encryptOption } from "./encryption/key-options.ts";
import { addExportOpen } from "./encryption/open.ts";
import { warnOfPlain } from "./encryption/plain-warning.ts";
import type { ExportSink } from "./export-file.ts";

interface Flags {
  readonly task?: readonly string[];
  readonly all?: boolean;
  readonly since?: string;
  readonly out?: string;
  readonly resume?: boolean;
  readonly artifacts: boolean;
  readonly bundle?: string;
  readonly checkpoint?: string;
  readonly attach?: readonly string[];
  readonly encryptWith?: readonly string[];
  readonly accessLog?: boolean;
}

interface VerifyFlags {
  readonly key?: readonly string[];
  readonly revoked?: readonly string[];
  readonly checkpoint?: string;
  readonly tsaCa?: string;
  readonly decryptWith?: readonly string[];
}

export function addExport(program: Command, action: ActionFactory): void {
  const command = program
    .command("export")
    .summary("Write whole tasks to a file, or verify such a file.")
    .description(
      "Write whole tasks as JSON Lines: every version of their checkpoints, the artifacts that these reference, their audit trails and handoffs, and the sorties, locks and messages of missions. The file is in a documented format and can be verified without a fleet. Only operators and custodians may export (exit 77), and the audit chain of the tenant records it.",
    )
    .option("-t, --task <id...>", "these tasks")
    .addOption(new Option("--all", "all tasks of the tenant").conflicts("task"))
    .addOption(
      new Option("--since <time>", "all tasks that changed since: 2h, 7d, 2026-01-04").conflicts("task"),
    )
    .option("-o, --out <file>", "write to a new private file, not to standard output")
    .option("--no-artifacts", "leave out the bytes of artifacts: the target must have them before an import")
    .addOption(
      new Option("--resume", "continue the interrupted file of --out").conflicts(["task", "all", "since"]),
    )
    .addOption(
      new Option(
        "--bundle <file>",
        "write a bundle for auditors: one tar with the export, proofs, keys, a report and verifiers",
      ).conflicts(["out", "resume"]),
    )
    .option("--checkpoint <file>", "with --bundle: prove that the audit log continues this kept checkpoint")
    .option("--attach <file...>", "with --bundle: carry these files, such as letters, under attachments/")
    .addOption(encryptOption().conflicts("resume"))
    .option("--access-log", "with --bundle: the whole access log of the tenant too; the default with --all")
    .option("--no-access-log", "with --bundle: leave the access log out")
    .action(action(exportTasks));
  withExamples(command, (fleet) => ({
    "One task": `${fleet} export --task auth --out auth.jsonl`,
    "Everything, also after an interruption": `${fleet} export --all --out tenant.jsonl || ${fleet} export --resume --out tenant.jsonl`,
    Compressed: `${fleet} export --since 7d | gzip > week.jsonl.gz`,
    "For the holder of a key alone": `${fleet} export --all --out tenant.enc --encrypt-with x25519:7Hs0…`,
    "Prove a file without a fleet": `${fleet} export verify tenant.jsonl`,
    "Everything that an auditor needs to verify it": `${fleet} export --all --bundle tenant.tar`,
    "One task, with who has read it": `${fleet} export --task auth --bundle auth.tar --access-log`,
  }));
  const verifyCommand = command
    .command("verify")
    .description(
      "Verify an export file or a bundle without a fleet: every hash, the audit chains and the states that they lead to, and in a bundle the signatures and proofs (exit 8: it is damaged, or it lacks what the fleet could not read).",
    )
    .argument("<file>", "the file")
    .addOption(trustedKeyOption())
    .addOption(revokedKeyOption())
    .option("--checkpoint <file>", "of a bundle: a checkpoint of the audit log that you have kept")
    .option("--tsa-ca <file>", "of a bundle: certificates of the time-stamp authorities that you trust (PEM)")
    .addOption(decryptOption())
    .action(action(verify));
  withExamples(verifyCommand, (fleet) => ({
    "In a nightly job": `${fleet} export verify tenant.jsonl --json > report.json`,
    "A bundle, with the key that you know from another place": `${fleet} export verify tenant.tar --key $KEY --checkpoint kept.txt`,
    "And the certificates of its time-stamp authority": `${fleet} export verify tenant.tar --key $KEY --tsa-ca tsa-ca.pem`,
  }));
  addExportOpen(command, action);
}

async function exportTasks(session: Session, flags: Flags): Promise<void> {
  const { isWholeExport, renderExport } = await import("../../rendering/transfer/export.ts");
  const { fillExport, requireSource } = await import("./export-contents.ts");
  const scope = scopeOf(session, flags);
  if (flags.bundle === undefined && (flags.checkpoint ?? flags.attach ?? flags.accessLog) !== undefined)
    throw new UsageError(
      "--checkpoint, --attach and --access-log are parts of a bundle",
      "Name its file with --bundle.",
    );
  if (flags.encryptWith !== undefined && flags.bundle === undefined && flags.out === undefined)
    throw new UsageError("--encrypt-with needs a file", "Name it with --out or --bundle.");
  if (scope !== null) await requireSource(session, scope);
  if (flags.bundle !== undefined && scope !== null) {
    const { exportBundle } = await import("./bundle/bundle-export.ts");
    const { bundle: path, artifacts, checkpoint, attach = [] } = flags;
    // The log names what was read of other tasks too.
    const accessLog = flags.accessLog ?? (scope.tasks === null && scope.since === null);
    const extent = { scope, artifacts, checkpoint, attach, accessLog, keys: keysOf(session, flags) };
    await exportBundle(session, path, extent);
    return warnOfPlain(session, flags);
  }
  const sink = await openSink(session, flags);
  try {
    if (!sink.verifier.isComplete) await fillExport(session, sink, { scope, artifacts: flags.artifacts });
  } catch (error) {
    await endInterrupted(session, sink, flags);
    throw error;
  } finally {
    await sink.close();
  }
  await warnOfPlain(session, flags);
  const { summary } = sink.verifier;
  const { lost, unreadable, artifacts_lost, records_lost } = summary;
  if (!isWholeExport(summary)) {
    session.exitCode = ERROR_TABLE.CORRUPT.exit;
    const text = "the fleet could not read everything";
    session.warn({
      code: "EXPORT_INCOMPLETE",
      text,
      details: {
        versions: lost,
        tasks: unreadable,
        artifacts: artifacts_lost,
        records: records_lost,
        signatures: summary.signature_problems,
        unread_signatures: summary.signatures_unread,
      },
    });
  }
  if (flags.out === undefined) return;
  await session.show({ file: flags.out, complete: isWholeExport(summary), ...summary }, () =>
    renderExport(flags.out as string, summary, { view: session.view, fleet: session.programName }),
  );
}

/** A new file without a whole task is removed, so that the same call can be repeated. Any other is continued. */
async function endInterrupted(
  session: Session,
  { verifier }: ExportSink,
  { out, resume, encryptWith }: Flags,
): Promise<void> {
  // An encrypted file is there only when it is whole.
  if (out === undefined || encryptWith !== undefined) return;
  if (resume !== true && verifier.done.size === 0) {
    const { rm } = await import("node:fs/promises");
    return rm(out, { force: true });
  }
  session.warn({
    code: "EXPORT_INTERRUPTED",
    text: `the file is not complete; continue with \`${session.programName} export --resume --out ${out}\``,
    details: { tasks: verifier.done.size },
  });
}

/** null: the file to continue has the scope. */
function scopeOf(session: Session, { task, all, since, resume, out }: Flags): ExportScope | null {
  if (resume === true) {
    if (out === undefined)
      throw new UsageError("--resume needs a file", "Name the interrupted file with --out.");
    return null;
  }
  if (task !== undefined) return { tasks: [...new Set(task)].sort(), since: null };
  if (since === undefined) {
    if (all === true) return { tasks: null, since: null };
    throw new UsageError("no tasks are named", "Give --task, --all or --since.");
  }
  const moment = parseMoment(since, session.context.now());
  if (moment !== undefined) return { tasks: null, since: moment };
  throw new UsageError(`--since: ${since} is no time`, "Write a duration such as 2h or 7d, or a date.");
}

/** null: the file is not encrypted. */
function keysOf({ context }: Session, { encryptWith }: Flags): NamedKeys | null {
  return encryptWith === undefined ? null : { sources: encryptWith, env: context.env };
}

async function openSink(session: Session, flags: Flags): Promise<ExportSink> {
  const { createEncryptedFile, createFile, resumeFile, standardOutput } = await import("./export-file.ts");
  const { out, resume } = flags;
  if (out === undefined) return standardOutput(session.context.stdout);
  const keys = keysOf(session, flags);
  if (keys !== null) return createEncryptedFile(out, keys);
  return resume === true ? await resumeFile(out) : await createFile(out);
}

async function verify(session: Session, path: string, flags: VerifyFlags): Promise<void> {
  const { isBundle, verifyBundleFile } = await import("./bundle/bundle-check.ts");
  const { readablePath } = await import("../../../../shared/transfer/encryption/encrypted-export.ts");
  const file = readablePath(path, { sources: flags.decryptWith ?? [], env: session.context.env });
  const bundle = await isBundle(file);
  if (bundle === "plain") return verifyBundleFile(session, path, flags);
  if (bundle === "encrypted")
    throw new UsageError(
      "the file is an encrypted bundle",
      `Write its content to a file with \`${session.programName} export open\`, and verify that one.`,
    );
  if ((flags.key ?? flags.revoked ?? flags.checkpoint ?? flags.tsaCa) !== undefined)
    throw new UsageError(
      "the file is no bundle",
      "Leave out --key, --revoked, --checkpoint and --tsa-ca, which verify bundles.",
    );
  const { readExport } = await import("./export-file.ts");
  const { ExportFault } = await import("../../../../shared/transfer/export-line.ts");
  const { isWholeExport, renderExport, renderFault } = await import("../../rendering/transfer/export.ts");
  try {
    const { summary } = await readExport(file);
    if (!isWholeExport(summary)) session.exitCode = ERROR_TABLE.CORRUPT.exit;
    await session.show({ file: path, ok: true, complete: isWholeExport(summary), ...summary }, () =>
      renderExport(path, summary, { view: session.view, fleet: session.programName }),
    );
  } catch (error) {
    if (!(error instanceof ExportFault)) throw error;
    const { line, problem } = error;
    session.exitCode = ERROR_TABLE.CORRUPT.exit;
    await session.show({ file: path, ok: false, line, problem }, () =>
      renderFault(path, error, session.view),
    );
  }
}
