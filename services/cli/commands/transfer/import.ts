// `fleet import`: the tasks of an export file, into this fleet and tenant. The whole file is verified, and every task of it compared with
// the fleet, before the first one is written.

import type { Command } from "commander";
import { ERROR_TABLE, FleetError } from "../../../../shared/protocol/errors.ts";
import type { ReadablePath } from "../../../../shared/transfer/encryption/encrypted-export.ts";
import type { ExportSummary } from "../../../../shared/transfer/export-verifier.ts";
import type { ImportReport } from "../../rendering/transfer/import.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { addThreadImport } from "../langgraph/import-threads.ts";
import { decryptOption } from "./encryption/key-options.ts";
import type { ExportedTask, VerifiedFile } from "./exported-tasks.ts";

interface Flags {
  readonly task?: readonly string[];
  readonly skipExisting?: boolean;
  readonly dryRun?: boolean;
  readonly decryptWith?: readonly string[];
}

export function addImport(program: Command, action: ActionFactory): void {
  const command = program
    .command("import")
    .summary("Import the tasks of an export file, or threads of LangGraph.")
    .description(
      "Import the tasks of a file that `export` wrote, into this fleet and tenant. The whole file is verified first. A mission keeps its sorties and messages, and its locks end. A repeated call continues an interrupted import. Needs the rights of an operator.",
    )
    // The subcommand has options of the same names.
    .enablePositionalOptions()
    .argument("<file>", "the file")
    .option("-t, --task <id...>", "only these tasks of the file")
    .option("--skip-existing", "leave out tasks whose names are taken, in place of importing none (exit 5)")
    .addOption(decryptOption())
    .option("--dry-run", "verify the file, compare it with the fleet, and change nothing")
    .action(action(importFile));
  withExamples(command, (fleet) => ({
    "The effect, then the import": `${fleet} import tenant.jsonl --dry-run && ${fleet} import tenant.jsonl`,
    "An encrypted file": `${fleet} import tenant.enc --decrypt-with file:/etc/fleet/export.key`,
    "One task, into another tenant": `${fleet} import tenant.jsonl --task auth --tenant staging`,
  }));
  addThreadImport(command, action);
}

type Plan = "import" | "continue" | "identical" | "taken";

async function importFile(session: Session, path: string, flags: Flags): Promise<void> {
  const { renderImport } = await import("../../rendering/transfer/import.ts");
  const { exportedTasks, verifiedFile } = await import("./exported-tasks.ts");
  const { readablePath } = await import("../../../../shared/transfer/encryption/encrypted-export.ts");
  const source = readablePath(path, { sources: flags.decryptWith ?? [], env: session.context.env });
  const file = await verifiedFile(source);
  const wanted = wantedTasks(flags.task, file.tasks);
  const plans = new Map<string, Plan>();
  for (const [id, digest] of file.tasks) {
    if (wanted.has(id) && !isLacking(file, id)) plans.set(id, await planOf(session, id, digest));
  }
  const taken = [...plans].flatMap(([id, plan]) => (plan === "taken" ? [id] : []));
  if (taken.length > 0 && flags.skipExisting !== true) {
    throw new FleetError("CONFLICT", "other tasks have these names; nothing was imported", {
      details: { task_id: taken[0], tasks: taken.slice(0, 20), count: taken.length, next: "--skip-existing" },
    });
  }
  const named = (plan: Plan): string[] => [...plans].flatMap(([id, its]) => (its === plan ? [id] : []));
  const written = [...named("import"), ...named("continue")];
  const missing = await requireArtifacts(session, file, written, flags.dryRun === true);
  let [versions, tombstones, records, artifacts] = [0, 0, 0, 0];
  if (flags.dryRun !== true && written.length > 0) {
    artifacts = await writeArtifacts(session, source, file, written);
    const isMeant = (id: string): boolean => plans.get(id) === "import" || plans.get(id) === "continue";
    for await (const task of exportedTasks(source, isMeant)) {
      const done = await importTask(session, file.summary, task, plans.size);
      versions += done.versions;
      tombstones += done.tombstones;
      records += done.records;
    }
  }
  const report: ImportReport = {
    file: path,
    imported: named("import"),
    continued: named("continue"),
    identical: named("identical"),
    skipped: taken,
    incomplete: [...file.incomplete].filter((id) => wanted.has(id)),
    without_records: [...file.withoutRecords].filter((id) => wanted.has(id)),
    versions,
    tombstones,
    records,
    artifacts,
    missing_artifacts: missing,
    dry_run: flags.dryRun === true,
  };
  if (report.incomplete.length + report.without_records.length > 0 || file.summary.unreadable > 0)
    session.exitCode = ERROR_TABLE.CORRUPT.exit;
  await session.show(report, () => renderImport(report, session.view));
}

/** A part of it would have to be made up. */
const isLacking = ({ incomplete, withoutRecords }: VerifiedFile, id: string): boolean =>
  incomplete.has(id) || withoutRecords.has(id);

/** Returns what is missing for a dry run, and throws NOT_FOUND otherwise: nothing may be written that refers to nothing. */
async function requireArtifacts(
  session: Session,
  file: VerifiedFile,
  tasks: readonly string[],
  isDry: boolean,
): Promise<string[]> {
  const { missingArtifacts } = await import("./artifact-import.ts");
  const missing = await missingArtifacts(await session.client(), file, tasks);
  if (missing.length === 0 || isDry) return missing;
  throw new FleetError(
    "NOT_FOUND",
    "neither the file nor the fleet has these artifacts; nothing was imported",
    {
      details: { artifacts: missing.slice(0, 20), count: missing.length, next: "artifact put" },
    },
  );
}

async function writeArtifacts(
  session: Session,
  source: ReadablePath,
  file: VerifiedFile,
  tasks: readonly string[],
): Promise<number> {
  const { uploadArtifacts } = await import("./artifact-import.ts");
  const { PROGRESS_END } = await import("../../rendering/terminal/progress.ts");
  try {
    return await uploadArtifacts(await session.client(), source, file, tasks, (sha256) =>
      session.progress(`${PROGRESS_END}Importing artifact ${sha256}`),
    );
  } finally {
    session.progress(PROGRESS_END);
  }
}

/** Throws NOT_FOUND for a task that the file does not have. */
function wantedTasks(
  named: readonly string[] | undefined,
  tasks: ReadonlyMap<string, string>,
): ReadonlySet<string> {
  const missing = named?.find((id) => !tasks.has(id));
  if (missing === undefined) return new Set(named ?? tasks.keys());
  throw new FleetError("NOT_FOUND", "the file has no such task", { details: { task_id: missing } });
}

async function planOf(session: Session, id: string, digest: string): Promise<Plan> {
  const client = await session.client();
  const known = await client.getTask(id, session.deadline);
  if (known === null) return "import";
  if (known.origin?.digest !== digest) return "taken";
  return known.origin.complete ? "identical" : "continue";
}

/** Returns the numbers of versions, tombstones and records that were written. */
async function importTask(
  session: Session,
  { fleet }: ExportSummary,
  exported: ExportedTask,
  total: number,
): Promise<Pick<ImportReport, "versions" | "tombstones" | "records">> {
  const { PROGRESS_END } = await import("../../rendering/terminal/progress.ts");
  const { recordBatches } = await import("./record-batches.ts");
  const client = await session.client();
  const { admin } = client;
  const { task, digest, versions, removed, records } = exported;
  const { task_id: id, tenant, fence, audit_seq, audit_hash, state, last_successful_id } = task;
  const known = await client.getTask(id, session.deadline);
  const steps = [...versions, ...removed].sort((a, b) => a.seq - b.seq || a.version - b.version);
  if (known === null) {
    const origin = { fleet, tenant, fence, audit_seq, audit_hash, digest, versions: steps.length };
    const ofMission = records.length > 0 && { records: records.length };
    await admin.beginImport(id, { ...origin, ...ofMission }, session.deadline);
  }
  const { imported: done = 0, imported_records: doneRecords = 0 } = known?.origin ?? {};
  const report = (what: string): void =>
    session.progress(`${PROGRESS_END}Importing ${id}: ${what} (${total} tasks)`);
  try {
    for (const [index, step] of steps.entries()) {
      if (index < done) continue;
      report(`version ${index + 1} of ${steps.length}`);
      if ("removed_at" in step) await admin.importRemoved(id, { index, removed: step }, session.deadline);
      else await admin.importVersion(id, { index, ...(await exported.read(step)) }, session.deadline);
    }
    for await (const batch of recordBatches(exported, doneRecords)) {
      report(`record ${batch.index + 1} of ${records.length}`);
      await admin.importRecords(id, batch, session.deadline);
    }
  } finally {
    session.progress(PROGRESS_END);
  }
  const ended = state === "completed" || state === "failed" || state === "cancelled";
  const end = { state: ended ? state : "active", last_successful_id } as const;
  await admin.endImport(id, end, session.deadline);
  const left = steps.slice(done);
  const tombstones = left.filter((step) => "removed_at" in step).length;
  return {
    versions: left.length - tombstones,
    tombstones,
    records: records.length - doneRecords,
  };
}
