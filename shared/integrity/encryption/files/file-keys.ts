/**
 * The keys of encrypted files, as a caller names them:
 *
 *     x25519:PUBLIC                a public key: encrypts for the holder of the private one
 *     file:/path, env:NAME         such a private key, or a key of encryption at rest
 *     vault:…, awskms:…            a root key (root-keys.ts)
 */
import type { Environment } from "../../../runtime/settings/config.ts";
import { openRootKeys } from "../root-keys.ts";
import { readSecretFile, readSecretVariable, refusedSecret } from "../secret-source.ts";
import { exportKeyPairOf, type FileOpener, type FileReceiver, receiverOf } from "./x25519-key.ts";

export interface FileKeyOptions {
  /** The option or the setting that names the keys, for errors. */
  readonly setting: string;
  readonly env: Environment;
}

const FILE = /^file:(.+)$/;
const VARIABLE = /^env:([A-Za-z_][A-Za-z0-9_]*)$/;
const ROOT = /^(?:file|env|vault|awskms):/;
/** So that their wrapped keys fit into the head of a file. */
const RECEIVERS_MAX = 50;
const EXPECTED =
  "x25519:KEY, file:/path, env:NAME, vault:https://host/v1/transit/keys/NAME or awskms:KEY_ARN";

/** Throws StartupError for a key that cannot be read. */
export async function openFileReceivers(
  sources: readonly string[],
  options: FileKeyOptions,
): Promise<readonly FileReceiver[]> {
  if (sources.length > RECEIVERS_MAX)
    throw refusedSecret(
      "a file is encrypted for too many keys",
      { setting: options.setting, source: "all" },
      {
        expected: `at most ${RECEIVERS_MAX}`,
      },
    );
  const keys: FileReceiver[] = [];
  for (const source of new Set(sources)) keys.push(receiverOf(source) ?? (await ownKey(source, options)));
  return keys;
}

/** Throws StartupError for a key that cannot be read, and for a public key, which opens nothing. */
export async function openFileOpeners(
  sources: readonly string[],
  options: FileKeyOptions,
): Promise<readonly FileOpener[]> {
  const keys: FileOpener[] = [];
  for (const source of new Set(sources)) {
    if (receiverOf(source) !== null)
      throw refusedSecret(
        "a public key opens no file",
        { setting: options.setting, source },
        {
          expected: "the file of its private key: file:/path",
        },
      );
    keys.push(await ownKey(source, options));
  }
  return keys;
}

async function ownKey(source: string, options: FileKeyOptions): Promise<FileReceiver & FileOpener> {
  const { setting, env } = options;
  // The text may be a key that was pasted by mistake, so it is not repeated.
  if (!ROOT.test(source))
    throw refusedSecret("a key has no known source", { setting, source: "unknown" }, { expected: EXPECTED });
  const pair = exportKeyPairOf(localText(source, env, setting));
  if (pair !== null) return pair;
  const [root] = await openRootKeys([source], { setting, env });
  return root;
}

/** Empty: the source is no place of this machine. */
function localText(source: string, env: Environment, setting: string): string {
  const place = { setting, source };
  const path = FILE.exec(source)?.[1];
  if (path !== undefined) return readSecretFile(path, place);
  const name = VARIABLE.exec(source)?.[1];
  return name === undefined ? "" : readSecretVariable(name, env, place);
}
