/** Ed25519 keys from given secrets: new ones would be made from the real machine's own entropy. */
import { createPrivateKey, type KeyObject } from "node:crypto";

/** A private key in PKCS #8 is this, then its 32 bytes (RFC 8410). */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

export const ed25519KeyOf = (secret: Uint8Array): KeyObject =>
  createPrivateKey({ key: Buffer.concat([PKCS8, secret]), format: "der", type: "pkcs8" });
