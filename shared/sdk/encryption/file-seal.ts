/** Seals files of this machine whose work is done, with the newest key of the setting. `fleet export open` shows their content. */
import { rmSync } from "node:fs";
import { FileEncrypter } from "../../integrity/encryption/files/file-encrypter.ts";
import { openFileReceivers } from "../../integrity/encryption/files/file-keys.ts";
import { readRegularFile } from "../../runtime/process/regular-file.ts";
import { writeWhole } from "../../runtime/process/whole-file.ts";
import type { Environment } from "../../runtime/settings/config.ts";
import { SPOOL_KEY } from "../spool/seal.ts";

/** Behind the name of a sealed file. */
const SEALED_SUFFIX = ".enc";
/** A file is sealed in memory. */
const FILE_BYTES_MAX = 256 * 1024 * 1024;

/**
 * Puts the sealed file into the place of the plain one, if there is one. A call that was killed in between is repeated. Throws the errors of
 * the file system, and an Error for what is no regular file or too large.
 */
export type FileSeal = (path: string) => Promise<void>;

/** `sources`: the value of the setting. null: files stay as they are. Throws StartupError for a key that cannot be read. */
export async function fileSealOf(
  sources: readonly string[] | undefined,
  env: Environment,
): Promise<FileSeal | null> {
  if (sources === undefined) return null;
  const receivers = await openFileReceivers(sources.slice(0, 1), { setting: SPOOL_KEY, env });
  return async (path) => {
    const content = readRegularFile(path, FILE_BYTES_MAX);
    if (content === null) return;
    const encrypter = await FileEncrypter.begin(receivers);
    const sealed = Buffer.concat([encrypter.head, encrypter.add(content), encrypter.end()]);
    writeWhole(`${path}${SEALED_SUFFIX}`, sealed);
    rmSync(path);
  };
}
