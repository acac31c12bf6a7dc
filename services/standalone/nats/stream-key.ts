/**
 * The key with which nats-server encrypts its streams, and so the queue, the artifacts on the bus and its key-value buckets. It lies on disk only
 * wrapped by a root key, and reaches the server in its environment: neither its configuration nor its command line has it.
 */
import { join } from "node:path";
import type { KeyEncryptionKeys } from "../../../shared/integrity/encryption/key-encryption-key.ts";
import { openKeyFile, rootOfKeyFile } from "../../../shared/integrity/encryption/key-file.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import { ENCRYPTION_KEY } from "../../../shared/service-host/service-settings.ts";
import { hasEncryptedStreams } from "./stream-folder.ts";

const FILE = "stream-key.json";
const PURPOSE = { context: "nats streams", setting: ENCRYPTION_KEY };

/**
 * The key in hex; undefined: the streams are not encrypted. `dir` is the folder of the server. Throws StartupError rather than start a server without
 * its key: it would leave the streams out, and the fleet would make empty ones in their place.
 */
export async function openStreamKey(
  dir: string,
  keys: KeyEncryptionKeys | undefined,
): Promise<string | undefined> {
  const path = join(dir, FILE);
  const root = rootOfKeyFile(path);
  const isEncrypted = hasEncryptedStreams(dir);
  if (keys === undefined) {
    if (root === undefined && !isEncrypted) return undefined;
    const hint = `set ${ENCRYPTION_KEY} to the root keys with which the fleet ran`;
    throw refused("the streams of the bus are encrypted", { dir, root_key: root }, hint);
  }
  if (root === undefined && isEncrypted)
    throw refused(
      "the key of the encrypted streams is lost",
      { file: path },
      "restore this file from a copy",
    );
  const { secret } = await openKeyFile(path, keys, PURPOSE);
  return secret.export().toString("hex");
}

function refused(message: string, details: Readonly<Record<string, unknown>>, hint: string): StartupError {
  return new StartupError(message, {
    exitCode: exitCodes.config,
    details: { setting: ENCRYPTION_KEY, ...details },
    hint,
  });
}
