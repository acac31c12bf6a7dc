/** The stored form of a signature: a MessagePack array of the key's id, the statement's bytes and the signature. */
import type { CommitSignature } from "../../integrity/commit-signature.ts";
import type { Bytes } from "../../store/store.ts";
import { decodeChecked, encodeCheckedBytes } from "../kv/codec.ts";

export function encodeSignature({ keyId, payload, signature }: CommitSignature): Bytes {
  return encodeCheckedBytes([Buffer.from(keyId, "hex"), payload, signature]);
}

/** null: the value is damaged. */
export function decodeSignature(value: Bytes): CommitSignature | null {
  try {
    const [keyId, payload, signature] = decodeChecked<readonly unknown[]>(value);
    if (!isBytes(keyId) || !isBytes(payload) || !isBytes(signature)) return null;
    return { keyId: Buffer.from(keyId).toString("hex"), payload, signature };
  } catch {
    return null;
  }
}

const isBytes = (value: unknown): value is Bytes => value instanceof Uint8Array;
