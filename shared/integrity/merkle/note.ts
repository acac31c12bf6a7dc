/**
 * Checkpoints of a log as signed notes (https://c2sp.org/tlog-checkpoint, https://c2sp.org/signed-note): a short text
 * with the name, the size and the root of the log, and its signature with Ed25519. Tools for transparency logs read it.
 *
 * The text begins with its origin, and what else a key signs begins with `DSSEv1`, so a signature for the one is
 * none for the other.
 */
import { createHash } from "node:crypto";
import { isTextSignature, rawPublicKey, type SigningKey } from "../dsse.ts";
import { TREE_HASH_BYTES } from "./hashes.ts";
import type { TreeRoot } from "./proofs.ts";

export interface LogCheckpoint extends TreeRoot {
  /** The name of the log, which is also the name in its signature. */
  readonly origin: string;
}

const ED25519 = 0x01;
const KEY_HASH_BYTES = 4;
const SIGNATURE = /^— (\S+) (\S+)$/;
const SIZE = /^(0|[1-9][0-9]{0,15})$/;
/** More than these are not examined: a note may come from anywhere. */
const SIGNATURES_MAX = 100;
/** Of one note, under the name of its origin and with the hash of a key. A log signs a checkpoint once. */
const TRIES_MAX = 2;

export function checkpointText({ origin, size, root }: LogCheckpoint): string {
  return `${origin}\n${size}\n${Buffer.from(root).toString("base64")}\n`;
}

/** null: the text is not that of a checkpoint. Further lines of it are allowed, and have no meaning here. */
function checkpointIn(text: string): LogCheckpoint | null {
  const [origin, size, root, ...others] = text.split("\n");
  if (!origin || size === undefined || !SIZE.test(size) || root === undefined) return null;
  const hash = exactBase64(root);
  if (hash?.length !== TREE_HASH_BYTES || !Number.isSafeInteger(Number(size))) return null;
  if (others.at(-1) !== "" || others.slice(0, -1).includes("")) return null;
  return { origin, size: Number(size), root: hash };
}

/** null: it is no base64, or another text for the same bytes. */
export function exactBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, "base64");
  return bytes.toString("base64") === text ? bytes : null;
}

/** The first bytes of a signature, which say of which name and key it is. `publicKey`: DER, in base64. */
function keyHash(name: string, publicKey: string): Buffer {
  const hash = createHash("sha256")
    .update(`${name}\n`)
    .update(Buffer.from([ED25519]));
  return hash.update(rawPublicKey(publicKey)).digest().subarray(0, KEY_HASH_BYTES);
}

/** The key as tools for signed notes take it. */
export function noteKeyText(origin: string, publicKey: string): string {
  const key = Buffer.concat([Buffer.from([ED25519]), rawPublicKey(publicKey)]);
  return `${origin}+${keyHash(origin, publicKey).toString("hex")}+${key.toString("base64")}`;
}

export function signCheckpoint(key: SigningKey, checkpoint: LogCheckpoint): string {
  const { origin } = checkpoint;
  const text = checkpointText(checkpoint);
  const signature = key.signText(Buffer.from(text));
  const line = Buffer.concat([keyHash(origin, key.publicKey), signature]).toString("base64");
  return `${text}\n— ${origin} ${line}\n`;
}

/** The text and the signature lines of a note; null: it is none. */
function partsOf(note: string): { readonly text: string; readonly lines: readonly string[] } | null {
  const at = note.lastIndexOf("\n\n");
  const lines = note.slice(at + 2).split("\n");
  if (at < 0 || lines.pop() !== "" || lines.length === 0 || lines.length > SIGNATURES_MAX) return null;
  return { text: note.slice(0, at + 1), lines };
}

/** A checkpoint and the key (DER, in base64) whose signature it has. */
export interface SignedCheckpoint {
  readonly checkpoint: LogCheckpoint;
  readonly publicKey: string;
}

/** Keys in the order in which they are tried, found by the hash in a signature. For programs that open many notes of one log. */
export class NoteKeys {
  readonly #publicKeys: readonly string[];
  #name: string | null = null;
  readonly #byHash = new Map<string, string[]>();

  /** DER, in base64. */
  constructor(publicKeys: readonly string[]) {
    this.#publicKeys = publicKeys;
  }

  find(name: string, hash: Uint8Array): readonly string[] {
    if (this.#name !== name) {
      this.#byHash.clear();
      for (const key of this.#publicKeys) {
        const of = keyHash(name, key).toString("hex");
        this.#byHash.set(of, [...(this.#byHash.get(of) ?? []), key]);
      }
      this.#name = name;
    }
    return this.#byHash.get(Buffer.from(hash).toString("hex")) ?? [];
  }
}

/**
 * null: it is no checkpoint, or not signed with one of the keys under the name of its origin by one of the first two signatures that name such a
 * key. Signatures of others, such as witnesses, are ignored.
 */
export function openCheckpoint(note: string, keys: readonly string[] | NoteKeys): SignedCheckpoint | null {
  const parts = partsOf(note);
  const checkpoint = parts && checkpointIn(parts.text);
  if (parts === null || checkpoint === null) return null;
  const { origin } = checkpoint;
  const known = keys instanceof NoteKeys ? keys : new NoteKeys(keys);
  let tries = 0;
  for (const line of parts.lines) {
    const [, name, encoded] = SIGNATURE.exec(line) ?? [];
    const bytes = encoded === undefined ? null : exactBase64(encoded);
    // A note with a line that is no signature is malformed.
    if (bytes === null) return null;
    if (name !== origin) continue;
    const signature = bytes.subarray(KEY_HASH_BYTES);
    for (const publicKey of known.find(origin, bytes.subarray(0, KEY_HASH_BYTES))) {
      if (isTextSignature(publicKey, Buffer.from(parts.text), signature)) return { checkpoint, publicKey };
      tries += 1;
      if (tries === TRIES_MAX) return null;
    }
  }
  return null;
}
