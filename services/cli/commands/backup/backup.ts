// `fleet backup` and `fleet restore`: backups of the standalone fleet's store, on its machine.

import { resolve } from "node:path";
import type { Command } from "commander";
import type { BackupMade, BackupRestoration } from "../../rendering/transfer/backup.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

export function addBackup(program: Command, action: ActionFactory): void {
  const command = program
    .command("backup")
    .summary("Back the store of the standalone fleet up.")
    .description(
      "Copy the store of the standalone fleet on this machine, as it is at one moment, into a new folder, with the identity and the keys of the fleet. The fleet may run. The copy is read again before the folder gets its name. It holds all data as the store has it, and keys unencrypted: only its owner can read it (mode 0700). Not in it: the root keys of FLEET_ENCRYPTION_KEY, artifacts, the bus, API keys and certificates.",
    )
    .argument("<folder>", "the new folder")
    .action(action(backup));
  withExamples(command, (fleet) => ({
    "In a nightly job": `${fleet} backup /var/backups/fleet-$(date +%F)`,
    "Of another fleet": `FLEET_HOME=/srv/fleet ${fleet} backup /var/backups/fleet-1 --json`,
  }));
}

export function addRestore(program: Command, action: ActionFactory): void {
  const command = program
    .command("restore")
    .summary("Restore a backup of the store.")
    .description(
      "Restore a backup into a home without a store, while no fleet runs there. All hashes are verified first (exit 8: the backup is damaged). Everything after the backup is lost to the store, so every task loses its owner, and its fence rises: agents from before the restore are refused, and continue with resume. Repeat the call if it is interrupted.",
    )
    .argument("[folder]", "the folder that `backup` made")
    .option(
      "--restored-at <time>",
      "another tool has restored FLEET_STORE, to its state at this time (ISO 8601)",
    )
    .action(action(restore));
  withExamples(command, (fleet) => ({
    "After the store was lost": `${fleet} restore /var/backups/fleet-2026-05-01 && ${fleet} up`,
    "After fdbrestore, while no service runs": `FLEET_STORE=fdb:/etc/foundationdb/fdb.cluster ${fleet} restore --restored-at 2026-05-01T02:00:00Z`,
  }));
}

async function backup(session: Session, folder: string): Promise<void> {
  const { runBackupProgram } = await import("./backup-program.ts");
  const made = await runBackupProgram<BackupMade>(session, "backup", resolve(folder));
  const { renderBackup } = await import("../../rendering/transfer/backup.ts");
  await session.show({ folder: resolve(folder), ...made }, () =>
    renderBackup(made, resolve(folder), session.view),
  );
}

async function restore(
  session: Session,
  folder: string | undefined,
  { restoredAt }: { readonly restoredAt?: string },
): Promise<void> {
  const { runBackupProgram } = await import("./backup-program.ts");
  const done = await runBackupProgram<BackupRestoration>(session, ...actOf(folder, restoredAt));
  const { renderRestored } = await import("../../rendering/transfer/backup.ts");
  await session.show(done, () => renderRestored(done, session.programName, session.view));
}

function actOf(folder: string | undefined, restoredAt: string | undefined): ["restore" | "restored", string] {
  if ((folder === undefined) === (restoredAt === undefined))
    throw new UsageError("name the folder of a backup, or --restored-at", "See `restore --help`.");
  if (restoredAt === undefined) return ["restore", resolve(folder as string)];
  const at = Date.parse(restoredAt);
  if (Number.isNaN(at)) throw new UsageError("--restored-at is no time", "Write it as 2026-05-01T02:00:00Z.");
  return ["restored", new Date(at).toISOString()];
}
