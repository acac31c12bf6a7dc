/**
 * DSSE envelopes with Ed25519 (https://github.com/secure-systems-lab/dsse). The type of the payload is within the
 * signed bytes, so a signature for one purpose is none for another. The bytes are verified before they are parsed,
 * and never made again for the verification.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";

/** The JSON form of a signed payload, which other tools for DSSE read too. */
export interface Envelope {
  readonly payloadType: string;
  /** Base64. */
  readonly payload: string;
  readonly signatures: readonly { readonly keyid: string; readonly sig: string }[];
}

export interface SigningKey {
  /** {@link keyIdOf} its public key. */
  readonly id: string;
  /** DER, SubjectPublicKeyInfo, in base64. */
  readonly publicKey: string;
  /** The signature, 64 bytes. Made in this thread: it takes about as long to give the work to a thread of the pool. */
  sign(payloadType: string, payload: Uint8Array): Uint8Array;
  /** The signature of the bytes alone. They must say what they are, and begin otherwise than {@link signedBytes}. */
  signText(text: Uint8Array): Uint8Array;
}

/** The pre-authentication encoding: the bytes that are signed. */
export function signedBytes(payloadType: string, payload: Uint8Array): Buffer {
  const head = `DSSEv1 ${Buffer.byteLength(payloadType)} ${payloadType} ${payload.length} `;
  const headBytes = Buffer.byteLength(head);
  const bytes = Buffer.allocUnsafe(headBytes + payload.length);
  bytes.write(head);
  bytes.set(payload, headBytes);
  return bytes;
}

/** `publicKey`: DER, in base64. */
export function keyIdOf(publicKey: string): string {
  return createHash("sha256").update(Buffer.from(publicKey, "base64")).digest("hex");
}

function spkiOf(key: KeyObject): string {
  return key.export({ type: "spki", format: "der" }).toString("base64");
}

/** Throws for text that is not the PEM of a private Ed25519 key. */
export function signingKeyFrom(pem: string): SigningKey {
  const key = createPrivateKey(pem);
  if (key.asymmetricKeyType !== "ed25519") throw new TypeError("the key is not an Ed25519 key");
  const publicKey = spkiOf(createPublicKey(key));
  const signText = (text: Uint8Array): Uint8Array => sign(null, text, key);
  return {
    id: keyIdOf(publicKey),
    publicKey,
    sign: (payloadType, payload) => signText(signedBytes(payloadType, payload)),
    signText,
  };
}

/** The PEM (PKCS#8) of a new private key. */
export function newSigningKeyPem(): string {
  return generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

const PUBLIC_KEYS_MAX = 1_000;
const publicKeys = new Map<string, KeyObject>();

/** Parsing a public key takes half as long as the verification. */
function publicKeyFrom(publicKey: string): KeyObject {
  const known = publicKeys.get(publicKey);
  if (known !== undefined) return known;
  const key = createPublicKey({ key: Buffer.from(publicKey, "base64"), type: "spki", format: "der" });
  if (key.asymmetricKeyType !== "ed25519") throw new TypeError("the key is not an Ed25519 key");
  if (publicKeys.size >= PUBLIC_KEYS_MAX) publicKeys.clear();
  publicKeys.set(publicKey, key);
  return key;
}

/** {@link isSignature} in this thread, for programs that have nothing else to do meanwhile. */
export function isTextSignature(publicKey: string, text: Uint8Array, signature: Uint8Array): boolean {
  try {
    return verify(null, text, publicKeyFrom(publicKey), signature);
  } catch {
    return false;
  }
}

const RAW_KEY_BYTES = 32;

/** The 32 bytes of an Ed25519 key, which are the last ones of its DER form. */
export function rawPublicKey(publicKey: string): Uint8Array {
  return Buffer.from(publicKey, "base64").subarray(-RAW_KEY_BYTES);
}

const FIELD_PRIME = 2n ** 255n - 19n;
/** The y of the points whose order divides 8: with such a key, one signature fits many texts. */
const SMALL_ORDER_Y: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  FIELD_PRIME - 1n,
  0x5fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
]);

/** Whether the 32 bytes of a public key are the only form of their point, and one signature fits one text. */
export function isUsablePoint(raw: Uint8Array): boolean {
  const y = BigInt(`0x${Buffer.from(raw).reverse().toString("hex")}`) & (2n ** 255n - 1n);
  return y < FIELD_PRIME && !SMALL_ORDER_Y.has(y);
}

/** Whether the signature is that of these bytes under the public key; false also for a damaged key. */
export async function isSignature(
  publicKey: string,
  bytes: Uint8Array,
  signature: Uint8Array,
): Promise<boolean> {
  let key: KeyObject;
  try {
    key = publicKeyFrom(publicKey);
  } catch {
    return false;
  }
  return new Promise((resolve) => {
    verify(null, bytes, key, signature, (error, isValid) => resolve(error === null && isValid));
  });
}
