// Seals an event of an agent's program before it is on disk. The form is that of shared/integrity/encryption/encrypted-bytes.ts; the helper opens it
// (services/hook/inbox/sealed-event.ts). Errors name the place of a key, and never a part of it.

import { createCipheriv, createHash, randomBytes } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { isAbsolute } from "node:path";

const MARKER = Buffer.from([0xc1, 0x01]);
const KEY_BYTES = 32;
const KEY_ID_BYTES = 8;
const NONCE_BYTES = 12;
const KEY_BYTES_MAX = 65_536;
const ROOT_USER = 0;
const FORM =
  "a part of FLEET_SPOOL_KEY names no file:/path (from the root folder) and no env:NAME; it is not repeated";

/** `text`: the event. `name`: that of its file, to which it is bound. `sources`: the value of FLEET_SPOOL_KEY, whose first key seals. It stands
 * beside the sealed text in clear, so each of its parts must name a place of a key: one may be a key that was pasted by mistake. */
export function sealedEvent(text, name, sources, env) {
  const places = placesOf(sources);
  const key = keyOf(places[0], env);
  const id = createHash("sha256")
    .update("fleet/key-encryption-key/v1\0")
    .update(key)
    .digest()
    .subarray(0, KEY_ID_BYTES);
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: 16 });
  cipher.setAAD(Buffer.concat([MARKER, id, Buffer.from(`fleet/hook-inbox/v1/${name}`)]));
  const body = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  const sealed = Buffer.concat([MARKER, id, nonce, body, cipher.getAuthTag()]);
  return `sealed=1\nFLEET_SPOOL_KEY=${places.map(({ source }) => source).join(",")}\n\n${sealed.toString("base64")}`;
}

/** Separated as in shared/runtime/settings: spaces and empty parts do not count. */
function placesOf(sources) {
  const parts = sources.split(",").map((part) => part.trim());
  const places = parts.filter((part) => part !== "").map(placeOf);
  if (places.length === 0) throw new Error(FORM);
  return places;
}

function placeOf(source) {
  const [, file] = /^file:(.+)$/.exec(source) ?? [];
  const [, variable] = /^env:([A-Za-z_][A-Za-z0-9_]*)$/.exec(source) ?? [];
  if (variable === undefined && !(file !== undefined && isAbsolute(file))) throw new Error(FORM);
  return { source, file, variable };
}

function keyOf({ source, file, variable }, env) {
  const text = file === undefined ? (env[variable] ?? "").trim() : privateText(file);
  const key = Buffer.from(text, "base64");
  if (key.length !== KEY_BYTES || key.toString("base64") !== text)
    throw new Error(`FLEET_SPOOL_KEY: ${source} has no key of 32 bytes in base64`);
  return key;
}

function privateText(path) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(file);
    const own = process.geteuid?.() ?? stat.uid;
    if (!stat.isFile() || stat.size > KEY_BYTES_MAX)
      throw new Error(`FLEET_SPOOL_KEY: ${path} is no file of a key`);
    if ((stat.mode & 0o027) !== 0 || (stat.uid !== own && stat.uid !== ROOT_USER))
      throw new Error(`FLEET_SPOOL_KEY: ${path} is open to other users`);
    return readFileSync(file, "utf8").trim();
  } finally {
    closeSync(file);
  }
}
