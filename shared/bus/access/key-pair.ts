/**
 * Key pairs that sign with Node's Ed25519. The JavaScript of @nats-io/nkeys takes ten milliseconds or more for each
 * signature and each public key, and a command needs eight of them before its first request.
 *
 * The text of a key is base32 of: its type, 32 bytes, and the CRC-16 (XMODEM, little endian) of both. A seed has
 * one more byte at the beginning, because its type and that of its public key share two bytes.
 * https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_intro/nkey_auth
 */
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import type { KeyPair } from "@nats-io/jwt";
import { nkeys } from "@nats-io/transport-node";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const KEY_BYTES = 32;
/** An Ed25519 private key in PKCS #8 is this, then its 32 bytes (RFC 8410). */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");
/** An Ed25519 public key in its standard form is this, then its 32 bytes. */
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
const PRIVATE = 15 << 3;
const USER = 20 << 3;

/** Throws if the text is not a seed. */
export function keyPairOf(seed: Uint8Array): KeyPair {
  // A curve key encrypts and does not sign.
  if (Buffer.from(seed.subarray(0, 2)).toString() === "SX") return nkeys.fromCurveSeed(seed);
  return withNodeCrypto(nkeys.fromSeed(seed));
}

/** A pair with the same seed, whose operations are fast. */
export function withNodeCrypto(pair: KeyPair): KeyPair {
  const seed = fromBase32(Buffer.from(pair.getSeed()).toString());
  const type = ((seed[0]! & 0b111) << 5) | (seed[1]! >> 3);
  const raw = seed.subarray(2, 2 + KEY_BYTES);
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, raw]), format: "der", type: "pkcs8" });
  const publicBytes = publicBytesOf(key);
  const publicKey = encoded(type, publicBytes);
  return Object.assign(Object.create(pair) as KeyPair, {
    getPublicKey: () => publicKey,
    getPrivateKey: () => Buffer.from(encoded(PRIVATE, Buffer.concat([raw, publicBytes]))),
    sign: (input: Uint8Array) => sign(null, input, key),
  });
}

/** True if the text is the public name of a user's key, with its checksum. */
export function isUserKey(publicName: string): boolean {
  const body = fromBase32(publicName);
  return body[0] === USER && encoded(USER, body.subarray(1, 1 + KEY_BYTES)) === publicName;
}

/** True if the holder of the key with this public name signed the input. */
export function isSignedBy(publicName: string, input: Uint8Array, signature: Uint8Array): boolean {
  const body = fromBase32(publicName);
  const bytes = body.subarray(1, 1 + KEY_BYTES);
  if (bytes.length !== KEY_BYTES || encoded(body[0]!, bytes) !== publicName) return false;
  const key = createPublicKey({ key: Buffer.concat([SPKI, bytes]), format: "der", type: "spki" });
  return verify(null, input, key, signature);
}

function publicBytesOf(key: KeyObject): Buffer {
  return Buffer.from(createPublicKey(key).export({ format: "jwk" }).x!, "base64url");
}

function encoded(type: number, key: Uint8Array): string {
  const body = Buffer.concat([Buffer.of(type), key]);
  const crc = Buffer.alloc(2);
  crc.writeUInt16LE(crc16(body));
  return toBase32(Buffer.concat([body, crc]));
}

function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc;
}

function toBase32(bytes: Uint8Array): string {
  const bits = Array.from(bytes, (byte) => byte.toString(2).padStart(8, "0")).join("");
  return (bits.match(/.{1,5}/g) ?? [])
    .map((five) => ALPHABET[Number.parseInt(five.padEnd(5, "0"), 2)])
    .join("");
}

function fromBase32(text: string): Buffer {
  const bits = Array.from(text, (char) => ALPHABET.indexOf(char).toString(2).padStart(5, "0")).join("");
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((eight) => Number.parseInt(eight, 2)));
}
