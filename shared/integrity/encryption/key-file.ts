/**
 * A data key in a file beside what it encrypts. The file has it wrapped by a root key only, so a copy of the folder opens nothing. The first open under
 * a new root key wraps it again; the data key stays, and nothing is encrypted again.
 */
import { createSecretKey, randomBytes } from "node:crypto";
import { ERROR_TABLE } from "../../protocol/errors.ts";
import { exitCodes, StartupError } from "../../runtime/process/startup.ts";
import { readJson, writeOnce, writeWhole } from "../../runtime/process/whole-file.ts";
import { DATA_KEY_BYTES, DATA_KEY_ID_BYTES, type DataKey } from "./encrypted-bytes.ts";
import { KeyEncryptionError, type KeyEncryptionKey, type KeyEncryptionKeys } from "./key-encryption-key.ts";

interface WrappedKey {
  readonly format: 1;
  /** In hex. */
  readonly id: string;
  /** The id of the root key. */
  readonly root: string;
  /** In base64. */
  readonly wrapped: string;
}

export interface KeyFilePurpose {
  /** What the key encrypts. The wrapped key does not unwrap for another purpose. */
  readonly context: string;
  /** The setting that names the root keys, for errors. */
  readonly setting: string;
}

/** The id of the root key that wraps the key in the file; undefined: there is no file. */
export function rootOfKeyFile(path: string): string | undefined {
  return readJson<WrappedKey>(path)?.root;
}

/** Makes the file if there is none; of several processes one makes it. Throws StartupError for a key that does not unwrap. */
export async function openKeyFile(
  path: string,
  keys: KeyEncryptionKeys,
  purpose: KeyFilePurpose,
): Promise<DataKey> {
  const stored = readJson<WrappedKey>(path) ?? (await made(path, keys[0], purpose));
  const root = keys.find(({ id }) => id === stored.root);
  if (root === undefined)
    throw new StartupError("the root key of a file is not named", {
      exitCode: exitCodes.config,
      details: { setting: purpose.setting, file: path, root_key: stored.root },
      hint: `name this root key in ${purpose.setting} too, after the new one`,
    });
  const wrapped = Buffer.from(stored.wrapped, "base64");
  const key = await asked(path, purpose, () => root.unwrap(wrapped, contextOf(purpose, stored.id)));
  const id = Buffer.from(stored.id, "hex");
  if (key.length !== DATA_KEY_BYTES || id.length !== DATA_KEY_ID_BYTES)
    throw new StartupError("the key in a file has another form", {
      exitCode: exitCodes.config,
      details: { setting: purpose.setting, file: path },
      hint: "restore this file from a copy",
    });
  if (root !== keys[0]) {
    const again = await wrappedBy(keys[0], { id: stored.id, key }, path, purpose);
    writeWhole(path, textOf(again));
  }
  return { id, secret: createSecretKey(key) };
}

async function made(path: string, root: KeyEncryptionKey, purpose: KeyFilePurpose): Promise<WrappedKey> {
  const id = randomBytes(DATA_KEY_ID_BYTES).toString("hex");
  const stored = await wrappedBy(root, { id, key: randomBytes(DATA_KEY_BYTES) }, path, purpose);
  // Another process may have been first, and may encrypt already.
  return writeOnce(path, textOf(stored)) ? stored : readJson<WrappedKey>(path)!;
}

async function wrappedBy(
  root: KeyEncryptionKey,
  { id, key }: { readonly id: string; readonly key: Uint8Array },
  path: string,
  purpose: KeyFilePurpose,
): Promise<WrappedKey> {
  const wrapped = await asked(path, purpose, () => root.wrap(key, contextOf(purpose, id)));
  return { format: 1, id, root: root.id, wrapped: Buffer.from(wrapped).toString("base64") };
}

const textOf = (stored: WrappedKey): string => `${JSON.stringify(stored)}\n`;
const contextOf = ({ context }: KeyFilePurpose, id: string): string => `fleet/key-file/v1/${context}/${id}`;

async function asked(
  file: string,
  { setting }: KeyFilePurpose,
  ask: () => Promise<Uint8Array>,
): Promise<Uint8Array> {
  try {
    return await ask();
  } catch (cause) {
    if (!(cause instanceof KeyEncryptionError)) throw cause;
    throw new StartupError(cause.message, {
      exitCode: cause.kind === "unavailable" ? ERROR_TABLE.UNAVAILABLE.exit : exitCodes.config,
      details: { setting, file, ...cause.details },
      hint:
        cause.kind === "invalid"
          ? "restore this file from a copy, or name the root key that wrapped it"
          : "see that the source of the root key is there and permits its use",
      cause,
    });
  }
}
