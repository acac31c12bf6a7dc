/**
 * The folder of API keys, one record for each. A record has a hash of the secret, and the principal's credentials
 * for the bus, encrypted (AES-256-GCM) with a key that follows from the secret (HKDF). So a copy of the folder opens
 * nothing, and the gateway can act for a principal only while that principal sends its key.
 */
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
} from "node:crypto";
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type ApiKeyRecord, apiKeyRecordSchema, apiKeyText, isApiKeyId } from "../protocol/api-key.ts";
import { requireFormat, writeWhole } from "../runtime/process/whole-file.ts";
import { type Environment, optional, readConfig, text } from "../runtime/settings/config.ts";

/** Read by the gateway, and by `fleet access api-key`, which writes the records. */
export const gatewayKeysField = optional(
  text("FLEET_GATEWAY_KEYS", {
    description: "Folder of the API keys",
    defaultNote: "`gateway/api-keys` in the home of the fleet",
  }),
);
const FOLDER_MODE = 0o700;
const ENDING = ".json";
const CIPHER = "aes-256-gcm";
const SECRET_BYTES = 32;
const ID_BYTES = 10;
const ALPHABET = "abcdefghijklmnopqrstuvwxyz234567";

/** The folder of the setting, or that in the home of the fleet. */
export function apiKeysFolder(home: string, env: Environment): string {
  return readConfig({ folder: gatewayKeysField }, env).folder ?? join(home, "gateway", "api-keys");
}

export interface NewApiKey extends Pick<ApiKeyRecord, "tenant" | "name" | "role" | "grant" | "account"> {
  /** Default: null, all operations that the role may use. */
  readonly scopes?: readonly string[] | null;
  readonly expiresAt: Date | null;
  readonly now: Date;
  /** The content of a credentials file. null: a bus without credentials. */
  readonly credentials: string | null;
}

/** Returns the key, which is nowhere else, when its record is on disk. */
export function createApiKey(
  folder: string,
  { expiresAt, now, credentials, scopes = null, ...principal }: NewApiKey,
): { readonly key: string; readonly record: ApiKeyRecord } {
  const secret = randomBytes(SECRET_BYTES);
  const open = {
    ...principal,
    scopes: scopes === null ? null : [...scopes],
    id: newId(),
    created_at: now.toISOString(),
    expires_at: expiresAt?.toISOString() ?? null,
    digest: digestOf(secret).toString("hex"),
  };
  const record: ApiKeyRecord = {
    ...open,
    sealed: credentials === null ? null : seal(credentials, secret, open),
  };
  mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
  chmodSync(folder, FOLDER_MODE);
  writeWhole(pathOf(folder, record.id), `${JSON.stringify(record)}\n`);
  return { key: apiKeyText({ id: record.id, secret: secret.toString("base64url") }), record };
}

/** undefined: there is none. Throws for a file that is no record. */
export function readApiKey(folder: string, id: string): ApiKeyRecord | undefined {
  let text: string;
  try {
    text = readFileSync(pathOf(folder, id), "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  return apiKeyRecordSchema.parse(requireFormat(JSON.parse(text), pathOf(folder, id)));
}

/** The oldest first. */
export function listApiKeys(folder: string): ApiKeyRecord[] {
  return names(folder)
    .flatMap((name) => readApiKey(folder, name.slice(0, -ENDING.length)) ?? [])
    .sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
}

export function removeApiKey(folder: string, id: string): void {
  rmSync(pathOf(folder, id), { force: true });
}

/** True for the secret of the record. Takes the same time for every other one. */
export function isSecretOf({ digest }: ApiKeyRecord, secret: string): boolean {
  return timingSafeEqual(digestOf(Buffer.from(secret, "base64url")), Buffer.from(digest, "hex"));
}

/** The content of the credentials file. null: none. Throws if the record was changed or the secret is another one. */
export function credentialsOfKey(record: ApiKeyRecord, secret: string): string | null {
  if (record.sealed === null) return null;
  const { salt, nonce, tag, text } = record.sealed;
  const bytes = (part: string): Buffer => Buffer.from(part, "base64url");
  const cipher = createDecipheriv(CIPHER, keyOf(bytes(secret), bytes(salt), record.id), bytes(nonce));
  cipher.setAAD(boundTo(record));
  cipher.setAuthTag(bytes(tag));
  return Buffer.concat([cipher.update(bytes(text)), cipher.final()]).toString();
}

type OpenRecord = Omit<ApiKeyRecord, "sealed">;

function seal(credentials: string, secret: Buffer, record: OpenRecord): ApiKeyRecord["sealed"] {
  const [salt, nonce] = [randomBytes(32), randomBytes(12)];
  const cipher = createCipheriv(CIPHER, keyOf(secret, salt, record.id), nonce);
  cipher.setAAD(boundTo(record));
  const text = Buffer.concat([cipher.update(credentials, "utf8"), cipher.final()]);
  const parts = { salt, nonce, tag: cipher.getAuthTag(), text };
  return {
    salt: parts.salt.toString("base64url"),
    nonce: parts.nonce.toString("base64url"),
    tag: parts.tag.toString("base64url"),
    text: parts.text.toString("base64url"),
  };
}

/** The sealed part is bound to the rest, so an editor of the file cannot give a key another principal or a later end. */
function boundTo(open: OpenRecord): Buffer {
  const { id, tenant, name, role, created_at, expires_at, grant, account, scopes } = open;
  // A record from before there were scopes has none.
  const more = scopes === null ? [] : [scopes];
  return Buffer.from(
    JSON.stringify([id, tenant, name, role, created_at, expires_at, grant, account, ...more]),
  );
}

const keyOf = (secret: Buffer, salt: Buffer, id: string): Buffer =>
  Buffer.from(hkdfSync("sha256", secret, salt, `fleet api key ${id}`, 32));

const digestOf = (secret: Buffer): Buffer => createHash("sha256").update(secret).digest();

function pathOf(folder: string, id: string): string {
  // An id from outside must not name another file.
  if (!isApiKeyId(id)) throw new TypeError("not the id of an API key");
  return join(folder, `${id}${ENDING}`);
}

function names(folder: string): string[] {
  try {
    return readdirSync(folder).filter(
      (name) => name.endsWith(ENDING) && isApiKeyId(name.slice(0, -ENDING.length)),
    );
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}

function newId(): string {
  let bits = 0n;
  for (const byte of randomBytes(ID_BYTES)) bits = (bits << 8n) | BigInt(byte);
  return Array.from({ length: 16 }, (_, i) => ALPHABET[Number((bits >> BigInt(5 * i)) & 31n)]).join("");
}
