// The results of `backup` and `restore`, for operators.

import { shortKeyId } from "../keys/signing-keys.ts";
import { counted, plain } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

export interface BackupMade {
  readonly created_at: string;
  readonly fleet: string | null;
  readonly version: string;
  readonly files: readonly { readonly path: string; readonly bytes: number; readonly sha256: string }[];
  /** Of the manifest, and so of all files. */
  readonly hash: string;
}

export interface BackupRestoration {
  readonly backup_at: string;
  readonly fleet: string | null;
  readonly incarnation: number;
  readonly tasks: number;
  readonly superseded: number;
  readonly damaged: number;
  /** The ids of the signing keys that are in use after it. */
  readonly signing_keys: readonly string[];
}

const MEGABYTE = 1_000_000;

export function renderBackup(
  { files, created_at, hash }: BackupMade,
  folder: string,
  { colors }: View,
): string {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  return [
    `${colors.green("✓")} Backed up the store of ${created_at} into ${plain(folder)}: ${counted(files.length, "file")}, ${(bytes / MEGABYTE).toFixed(1)} MB, verified.`,
    `Its hash, to keep at another place: ${hash}`,
    "It holds all data as the store has it, and keys of the fleet unencrypted. Not in it: artifacts, the bus, API keys and certificates.",
  ].join("\n");
}

/** `fleet` is the name of the program in printed commands. */
export function renderRestored(done: BackupRestoration, fleet: string, { colors }: View): string {
  const { backup_at, tasks, superseded, damaged, signing_keys: keys } = done;
  return [
    `${colors.green("✓")} Restored the store of ${backup_at} with ${counted(tasks, "task")}; ${superseded} of them lost their owners.`,
    ...(damaged > 0
      ? [`${counted(damaged, "task")} cannot be read; \`${fleet} scrub start --wait\` names them.`]
      : []),
    "What was written after this time is lost. Agents from before the restore are refused, and continue with `resume`.",
    ...(keys.length === 0
      ? []
      : [
          `In use again are the signing keys ${keys.map(shortKeyId).join(", ")}: revoke those that were revoked since, with \`${fleet} keys revoke KEY --reason REASON\`.`,
        ]),
    `Next: \`${fleet} up\`.`,
  ].join("\n");
}
