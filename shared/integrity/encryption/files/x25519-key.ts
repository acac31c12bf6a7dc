/**
 * A key pair for files: the public key encrypts for the holder of the private one, who alone opens the files. A wrapped key is the public half of a key pair
 * that is used once (X25519), and the key of the file, encrypted with what follows from both (HKDF-SHA-256, AES-256-GCM).
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from "node:crypto";
import {
  DATA_KEY_BYTES,
  DATA_KEY_ID_BYTES,
  type DataKey,
  decryptBytes,
  encryptBytes,
} from "../encrypted-bytes.ts";
import { KeyEncryptionError, type KeyEncryptionKey } from "../key-encryption-key.ts";

const CURVE_BYTES = 32;
/** What stands before the 32 bytes of a key in DER. */
const PRIVATE_DER = Buffer.from("302e020100300506032b656e04220420", "hex");
const PUBLIC_DER = Buffer.from("302a300506032b656e032100", "hex");
const ID_DOMAIN = "fleet/x25519-key/v1\0";
const PUBLIC = /^x25519:([A-Za-z0-9_-]{43})$/;
const PRIVATE = /^x25519-private:([A-Za-z0-9_-]{43})$/;

/** A key for which files are encrypted. */
export type FileReceiver = Pick<KeyEncryptionKey, "id" | "wrap">;
/** A key that opens files. */
export type FileOpener = Pick<KeyEncryptionKey, "id" | "unwrap">;

/** The private key as the text of its file. */
export function newPrivateKeyText(): string {
  return `x25519-private:${randomBytes(CURVE_BYTES).toString("base64url")}`;
}

/** null: the text has another form. */
export function receiverOf(text: string): FileReceiver | null {
  const bytes = bytesIn(PUBLIC, text);
  return bytes && receiver(bytes);
}

/** Of a private key in its file. null: the text has another form. */
export function exportKeyPairOf(
  text: string,
): (FileReceiver & FileOpener & { readonly publicText: string }) | null {
  const secret = bytesIn(PRIVATE, text);
  if (secret === null) return null;
  const own = createPrivateKey({
    key: Buffer.concat([PRIVATE_DER, secret]),
    format: "der",
    type: "pkcs8",
  });
  const publicBytes = bytesOf(createPublicKey(own));
  const { id, wrap } = receiver(publicBytes);
  return {
    id,
    wrap,
    publicText: `x25519:${publicBytes.toString("base64url")}`,
    unwrap: async (wrapped, context) => {
      const share = Buffer.from(wrapped.subarray(0, CURVE_BYTES));
      const key =
        share.length === CURVE_BYTES ? sharedKey(own, share, { share, receiver: publicBytes }) : null;
      const plain = key && decryptBytes(key, wrapped.subarray(CURVE_BYTES), Buffer.from(context));
      if (plain === null) throw new KeyEncryptionError("invalid", "the wrapped key does not unwrap");
      return plain;
    },
  };
}

function receiver(bytes: Buffer): FileReceiver {
  return {
    id: `x25519:${idOf(bytes).toString("hex")}`,
    wrap: async (plain, context) => {
      const once = generateKeyPairSync("x25519");
      const share = bytesOf(once.publicKey);
      const key = sharedKey(once.privateKey, bytes, { share, receiver: bytes });
      if (key === null) throw new KeyEncryptionError("refused", "the public key is none of the curve");
      return Buffer.concat([share, encryptBytes(key, plain, Buffer.from(context))]);
    },
  };
}

/** null: the other key is a point of small order, for which all secrets are equal. */
function sharedKey(
  privateKey: KeyObject,
  other: Buffer,
  { share, receiver: publicBytes }: { readonly share: Buffer; readonly receiver: Buffer },
): DataKey | null {
  const publicKey = createPublicKey({ key: Buffer.concat([PUBLIC_DER, other]), format: "der", type: "spki" });
  let secret: Buffer;
  try {
    secret = diffieHellman({ privateKey, publicKey });
  } catch {
    return null;
  }
  const salt = Buffer.concat([share, publicBytes]);
  const key = hkdfSync("sha256", secret, salt, "fleet/encrypted-file/v1/x25519", DATA_KEY_BYTES);
  return { id: idOf(publicBytes), secret: createSecretKey(Buffer.from(key)) };
}

function bytesIn(form: RegExp, text: string): Buffer | null {
  const encoded = form.exec(text)?.[1] ?? "";
  const bytes = Buffer.from(encoded, "base64url");
  // Spare bits of the last character may be set: such a text is not what was written.
  return bytes.length === CURVE_BYTES && bytes.toString("base64url") === encoded ? bytes : null;
}

const bytesOf = (key: KeyObject): Buffer =>
  key.export({ format: "der", type: "spki" }).subarray(PUBLIC_DER.length);

const idOf = (publicBytes: Buffer): Buffer =>
  createHash("sha256").update(ID_DOMAIN).update(publicBytes).digest().subarray(0, DATA_KEY_ID_BYTES);
