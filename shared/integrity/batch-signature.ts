/**
 * One Ed25519 signature for several payloads: of the root of the Merkle tree (RFC 6962) over their signed bytes. Each payload
 * keeps the signature with its own path to the root, so it is verified without the others. Signing takes twenty times
 * as long as hashing, so a service that is busy signs many commits at once.
 *
 * The bytes: the signature (64), the number of the payload in its batch (2, big-endian), the size of the batch (2), and
 * the hashes of the path (32 each). 64 bytes alone are the signature of one payload.
 */
import { type SigningKey, signedBytes } from "./dsse.ts";
import { leafHash, TREE_HASH_BYTES } from "./merkle/hashes.ts";
import { treeWithPaths } from "./merkle/paths.ts";
import { rootAbove } from "./merkle/proofs.ts";

export const BATCH_PAYLOAD_TYPE = "application/vnd.fleet.batch.v1";
const SIGNATURE_BYTES = 64;
const COUNT_BYTES = 2;
const PATH_AT = SIGNATURE_BYTES + 2 * COUNT_BYTES;

/** The bytes that one Ed25519 signature covers, and this signature. */
export interface SignedPart {
  readonly bytes: Uint8Array;
  readonly signature: Uint8Array;
}

/** The signatures of payloads of one type, in their order. At most 65,535. */
export function signBatch(
  key: SigningKey,
  payloadType: string,
  payloads: readonly Uint8Array[],
): Uint8Array[] {
  if (payloads.length === 1) return [key.sign(payloadType, payloads[0]!)];
  const leaves = payloads.map((payload) => leafHash(signedBytes(payloadType, payload)));
  const { root, paths } = treeWithPaths(leaves);
  const size = payloads.length;
  const signature = key.sign(BATCH_PAYLOAD_TYPE, rootPayload(root, size));
  return paths.map((path, index) => withPath(signature, { index, size, path }));
}

function withPath(
  signature: Uint8Array,
  {
    index,
    size,
    path,
  }: { readonly index: number; readonly size: number; readonly path: readonly Uint8Array[] },
): Uint8Array {
  const bytes = Buffer.allocUnsafe(PATH_AT + path.length * TREE_HASH_BYTES);
  bytes.set(signature);
  bytes.writeUInt16BE(index, SIGNATURE_BYTES);
  bytes.writeUInt16BE(size, SIGNATURE_BYTES + COUNT_BYTES);
  for (let i = 0; i < path.length; i += 1) bytes.set(path[i]!, PATH_AT + i * TREE_HASH_BYTES);
  return bytes;
}

/** What Ed25519 has to verify for a signature of the payload. null: the bytes are no signature. */
export function signedPart(
  payloadType: string,
  { payload, signature }: { readonly payload: Uint8Array; readonly signature: Uint8Array },
): SignedPart | null {
  const bytes = signedBytes(payloadType, payload);
  if (signature.length === SIGNATURE_BYTES) return { bytes, signature };
  if (signature.length < PATH_AT || (signature.length - PATH_AT) % TREE_HASH_BYTES !== 0) return null;
  const view = Buffer.from(signature.buffer, signature.byteOffset, signature.length);
  const index = view.readUInt16BE(SIGNATURE_BYTES);
  const size = view.readUInt16BE(SIGNATURE_BYTES + COUNT_BYTES);
  const path: Uint8Array[] = [];
  for (let at = PATH_AT; at < view.length; at += TREE_HASH_BYTES)
    path.push(view.subarray(at, at + TREE_HASH_BYTES));
  const root = rootAbove({ index, hash: leafHash(bytes) }, size, path);
  if (root === null) return null;
  return {
    bytes: signedBytes(BATCH_PAYLOAD_TYPE, rootPayload(root, size)),
    signature: view.subarray(0, SIGNATURE_BYTES),
  };
}

const rootPayload = (root: Uint8Array, size: number): Buffer => Buffer.concat([count(size), root]);

function count(value: number): Buffer {
  const bytes = Buffer.alloc(COUNT_BYTES);
  bytes.writeUInt16BE(value);
  return bytes;
}
