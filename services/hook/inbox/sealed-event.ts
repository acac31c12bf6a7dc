/**
 * Events that their hook process has sealed with the key of this machine (deploy/hook/seal.mjs). What stands before the sealed text is the setting that names
 * the key, because the helper serves agents with different settings.
 */
import { isAbsolute } from "node:path";
import { decryptBytes, encryptedWith } from "../../../shared/integrity/encryption/encrypted-bytes.ts";
import { dataKeyOf } from "../../../shared/integrity/encryption/secret-key.ts";
import { readSecretFile, readSecretVariable } from "../../../shared/integrity/encryption/secret-source.ts";
import type { Environment } from "../../../shared/runtime/settings/config.ts";
import { SPOOL_KEY } from "../../../shared/sdk/spool/seal.ts";

/** No plain event begins so. */
const MARK = "sealed=1";
const SEALED = new RegExp(`^${MARK}\\n${SPOOL_KEY}=(.*)\\n\\n`);

/** Why an event does not open. The file stays, for the time when its key is there again. */
export class SealedEvent extends Error {
  readonly details: Readonly<Record<string, unknown>>;

  constructor(message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message);
    this.name = "SealedEvent";
    this.details = { setting: SPOOL_KEY, ...details };
  }
}

/** The text of an event, which `name` names. A plain one is returned as it is. Throws {@link SealedEvent}. */
export function openedEvent(text: string, name: string, env: Environment): string {
  const head = SEALED.exec(text);
  if (head === null) {
    if (text.startsWith(MARK)) throw new SealedEvent("a sealed event has another form");
    return text;
  }
  const bytes = Buffer.from(text.slice(head[0].length), "base64");
  const id = encryptedWith(bytes);
  if (id === null) throw new SealedEvent("a sealed event was changed");
  const key_id = Buffer.from(id).toString("hex");
  const problems: string[] = [];
  for (const source of (head[1] ?? "").split(",")) {
    const key = keyAt(source.trim(), env, problems);
    if (key === null || Buffer.compare(key.id, id) !== 0) continue;
    const plain = decryptBytes(key, bytes, Buffer.from(`fleet/hook-inbox/v1/${name}`));
    if (plain === null) throw new SealedEvent("a sealed event was changed or moved", { key_id });
    return plain.toString("utf8");
  }
  throw new SealedEvent("the key of a sealed event is not here", { key_id, problems });
}

/** null: the key cannot be read, for the reason that is added to the problems. */
function keyAt(source: string, env: Environment, problems: string[]): ReturnType<typeof dataKeyOf> {
  const place = { setting: SPOOL_KEY, source };
  try {
    const path = /^file:(.+)$/.exec(source)?.[1];
    // This process has another working folder than the one that wrote the event.
    if (path !== undefined && !isAbsolute(path))
      throw new Error("the path of a key begins at no root folder");
    if (path !== undefined) return dataKeyOf(readSecretFile(path, place));
    const name = /^env:([A-Za-z_][A-Za-z0-9_]*)$/.exec(source)?.[1];
    return name === undefined ? null : dataKeyOf(readSecretVariable(name, env, place));
  } catch (error) {
    problems.push((error as Error).message);
    return null;
  }
}
