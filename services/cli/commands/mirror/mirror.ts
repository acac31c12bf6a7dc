// `fleet mirror`: whether the files of the mirror are those of the fleet, their completion, and the restoration of a lost store from them.

import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import type { MirrorReport } from "./comparison.ts";
import type { RestorationFlags } from "./restoration.ts";

const FOLDER = "the folder of the mirror (default: FLEET_HOME, else .fleet)";

export function addMirror(program: Command, action: ActionFactory): void {
  const group = program
    .command("mirror")
    .summary("Verify, complete or restore from the files of the mirror.")
    .description(
      "Compare the files of the mirror with the fleet, complete them, or restore a lost store from them. The folder must be on this machine.",
    );
  const verifyCommand = group
    .command("verify")
    .description(
      "Compare the file of every checkpoint of the tenant with the fleet: missing, damaged and surplus files (exit 8: there are some).",
    )
    .argument("[folder]", FOLDER)
    .action(action(verify));
  withExamples(verifyCommand, (fleet) => ({
    "In a nightly job": `${fleet} mirror verify --json > report.json || ${fleet} mirror rebuild`,
    "Another folder": `${fleet} mirror verify /var/backups/fleet`,
  }));
  const rebuildCommand = group
    .command("rebuild")
    .description(
      "Write every file again: the fleet goes through all checkpoints of all tenants from the first one. Returns when the files of the tenant are complete (exit 8: they are not). Files that the fleet does not have are left alone.",
    )
    .argument("[folder]", FOLDER)
    .action(action(rebuild));
  withExamples(rebuildCommand, (fleet) => ({
    "After files were lost or damaged": `${fleet} mirror rebuild`,
  }));
  const restoreCommand = group
    .command("restore")
    .description(
      "Write the tasks and missions of a lost store again, from the current versions in the files. All files are verified first, by the audit trails beside them. A task that the fleet has is never changed. A repeated call continues an interrupted one. Exit 8: some files or tasks were left out. Needs the rights of an operator.",
    )
    .argument("[folder]", FOLDER)
    .option("-t, --task <id...>", "only these tasks")
    .option("--dry-run", "verify the files, compare them with the fleet, and change nothing")
    .action(action(restore));
  withExamples(restoreCommand, (fleet) => ({
    "After the store was lost": `${fleet} mirror restore --dry-run && ${fleet} mirror restore`,
    "The tasks of another tenant, from a copy of the folder": `${fleet} mirror restore /var/backups/fleet --tenant acme`,
  }));
}

async function restore(session: Session, folder: string | undefined, flags: RestorationFlags): Promise<void> {
  const { restoreFromMirror } = await import("./restoration.ts");
  const { renderRestoration } = await import("../../rendering/transfer/restoration.ts");
  const report = await restoreFromMirror(session, await folderOf(session, folder), flags);
  await session.show(report, () => renderRestoration(report, session.programName, session.view));
}

async function verify(session: Session, folder: string | undefined): Promise<void> {
  const { compareMirror } = await import("./comparison.ts");
  await show(session, await compareMirror(session, await folderOf(session, folder)));
}

async function rebuild(session: Session, folder: string | undefined): Promise<void> {
  const { completeMirror } = await import("./completion.ts");
  await show(session, await completeMirror(session, await folderOf(session, folder)));
}

async function show(session: Session, report: MirrorReport): Promise<void> {
  const { renderMirror } = await import("../../rendering/transfer/mirror.ts");
  if (report.findings.length > 0) session.exitCode = ERROR_TABLE.CORRUPT.exit;
  await session.show(report, () => renderMirror(report, session.programName, session.view));
}

/** Throws UsageError: a fleet whose mirror is elsewhere has no files here, which must not look like lost ones. */
async function folderOf({ context }: Session, named: string | undefined): Promise<string> {
  const [{ homeOf }, { MirrorFolder }] = await Promise.all([
    import("../../../../shared/sdk/fleet-home.ts"),
    import("../../../../shared/mirror/folder.ts"),
  ]);
  const folder = named ?? homeOf(context.env);
  if (await new MirrorFolder(folder).exists()) return folder;
  throw new UsageError(
    `${folder} holds no mirror`,
    "Name the folder of FLEET_MIRROR_DIR, on the machine of the fleet.",
  );
}
