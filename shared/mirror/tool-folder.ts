/** The folder of the mirror as tools read it, with the root keys of their environment. */
import { ENCRYPTION_KEY, encryptionKeysField } from "../integrity/encryption/root-keys.ts";
import { type Environment, readConfig } from "../runtime/settings/config.ts";
import { mirrorSeal } from "./encryption/mirror-key.ts";
import { MirrorFolder } from "./folder.ts";

/** `path` is the one that operators name. Throws ConfigError. */
export function mirrorFolderAt(path: string, env: Environment): MirrorFolder {
  const { encryptionKeys } = readConfig({ encryptionKeys: encryptionKeysField }, env);
  return new MirrorFolder(path, mirrorSeal(path, encryptionKeys, { setting: ENCRYPTION_KEY, env }));
}
