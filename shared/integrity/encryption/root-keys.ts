/**
 * The root keys that a setting names, separated by commas: the first one wraps, all of them unwrap. So a root key is replaced by naming
 * its successor before it, and is removed from the setting when nothing is wrapped with it any more.
 *
 *     file:/path                                     32 bytes in base64, mode 0600
 *     env:NAME                                       the same in a variable of the environment
 *     vault:https://host:8200/v1/transit/keys/NAME   a key of the Transit engine of Vault or OpenBao
 *     awskms:arn:aws:kms:REGION:ACCOUNT:key/ID       a symmetric key of AWS KMS
 */
import { isAbsolute } from "node:path";
import type { Environment, Field, FieldOptions } from "../../runtime/settings/config.ts";
import { list, optional } from "../../runtime/settings/config.ts";
import { isKmsArn, openKmsKey } from "./aws-kms.ts";
import type { KeyEncryptionKey, KeyEncryptionKeys } from "./key-encryption-key.ts";
import { secretKeyOf } from "./secret-key.ts";
import { readSecretFile, readSecretVariable, refusedSecret, type SecretPlace } from "./secret-source.ts";
import { openTransitKey, transitAddress } from "./vault-transit.ts";

const LOCAL_TYPE = "file:/absolute/path of a key file or env:NAME, or several with commas";
const TYPE =
  "file:/absolute/path of a key file, env:NAME, vault:https://host/v1/transit/keys/NAME or awskms:KEY_ARN, or several with commas";
const MAKE_HINT = "make a key with: fleet keys encryption-key --out FILE";

/** The setting of root keys from all sources. Its value may be a key that was pasted by mistake, so it is never shown. */
export function rootKeyField(name: string, options: FieldOptions<readonly string[]>) {
  return sourceField(name, TYPE, options, (source) => isLocal(source) || isRemote(source));
}

/** The setting of keys of one machine, which needs no server to read its own files. */
export function localKeyField(name: string, options: FieldOptions<readonly string[]>) {
  return sourceField(name, LOCAL_TYPE, options, isLocal);
}

function sourceField(
  name: string,
  type: string,
  options: FieldOptions<readonly string[]>,
  isSource: (text: string) => boolean,
): Field<readonly string[]> {
  const field = list(name, { ...options, secret: true, min: 1 });
  const parse = (raw: string) => {
    const sources = field.parse(raw);
    return sources?.every(isSource) && new Set(sources).size === sources.length ? sources : undefined;
  };
  return { ...field, type, parse };
}

/** The setting of the root keys of a fleet, also for errors about them. */
export const ENCRYPTION_KEY = "FLEET_ENCRYPTION_KEY";

const FILE = /^file:(.+)$/;
const VARIABLE = /^env:([A-Za-z_][A-Za-z0-9_]*)$/;
const VAULT = /^vault:(.+)$/;
const KMS = /^awskms:(.+)$/;

/** The processes that read a setting have different working folders, so a path begins at the root. */
const isLocal = (source: string): boolean =>
  isAbsolute(FILE.exec(source)?.[1] ?? "") || VARIABLE.test(source);
const isRemote = (source: string): boolean =>
  transitAddress(VAULT.exec(source)?.[1] ?? "") !== null || isKmsArn(KMS.exec(source)?.[1] ?? "");

export interface RootKeyOptions {
  /** The setting that names the keys, for errors. */
  readonly setting: string;
  readonly env: Environment;
}

/**
 * `sources` is the value of a {@link rootKeyField}. Local keys are read at once; servers are asked when a key is first used, so a service
 * starts without them. Throws StartupError for a key that cannot be read, and for a client that is not installed.
 */
export async function openRootKeys(
  sources: readonly string[],
  options: RootKeyOptions,
): Promise<KeyEncryptionKeys> {
  const keys: KeyEncryptionKey[] = [];
  for (const source of sources) keys.push(await openRootKey(source, options));
  return distinct(keys, options);
}

/** `sources` is the value of a {@link localKeyField}. Throws StartupError. */
export function openLocalKeys(sources: readonly string[], options: RootKeyOptions): KeyEncryptionKeys {
  return distinct(
    sources.map((source) => localKey(source, options)),
    options,
  );
}

async function openRootKey(source: string, options: RootKeyOptions): Promise<KeyEncryptionKey> {
  const place = { setting: options.setting, source };
  const address = transitAddress(VAULT.exec(source)?.[1] ?? "");
  if (address !== null) return openTransitKey(address, options.env, place);
  const arn = KMS.exec(source)?.[1] ?? "";
  return isKmsArn(arn) ? openKmsKey(arn) : localKey(source, options);
}

function localKey(source: string, { setting, env }: RootKeyOptions): KeyEncryptionKey {
  const place = { setting, source };
  const key = secretKeyOf(localSecret(source, env, place));
  if (key !== null) return key;
  throw refusedSecret("a key of encryption at rest has another form", place, { expected: FORM }, MAKE_HINT);
}

const FORM = "32 random bytes in base64, which are 44 characters";

function localSecret(source: string, env: Environment, place: SecretPlace): string {
  const path = FILE.exec(source)?.[1];
  if (path !== undefined) return readSecretFile(path, place);
  const name = VARIABLE.exec(source)?.[1];
  if (name !== undefined) return readSecretVariable(name, env, place);
  // The text may be a key, so it is not repeated.
  const unnamed = { setting: place.setting, source: "unknown" };
  throw refusedSecret("a key of encryption at rest has no known source", unnamed, { expected: TYPE });
}

/** One key under two names would hide that its successor was never made. */
function distinct(keys: readonly KeyEncryptionKey[], { setting }: RootKeyOptions): KeyEncryptionKeys {
  const [first, ...others] = keys;
  const facts = { expected: "different keys" };
  const place = { setting, source: "all" };
  if (first === undefined || new Set(keys.map(({ id }) => id)).size < keys.length)
    throw refusedSecret("the keys of encryption at rest are not different", place, facts);
  return [first, ...others];
}

export const encryptionKeysField = optional(
  rootKeyField(ENCRYPTION_KEY, {
    description:
      "Root keys of encryption at rest, the newest first: it wraps new keys, the others still unwrap. A file of mode 0600 (`fleet keys encryption-key` makes one), a variable of the environment, a key of the Transit engine of Vault or OpenBao (token in `VAULT_TOKEN`, or `?token_file=/path`), or a key of AWS KMS",
    defaultNote: "none: what is stored is not encrypted",
  }),
);
