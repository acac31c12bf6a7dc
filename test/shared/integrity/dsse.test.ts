import { createPrivateKey, createPublicKey, sign } from "node:crypto";
import { expect, test } from "vitest";
import {
  isSignature,
  keyIdOf,
  newSigningKeyPem,
  signedBytes,
  signingKeyFrom,
} from "../../../shared/integrity/dsse.ts";

const TYPE = "application/vnd.test+json";
const PAYLOAD = Buffer.from('{"a":1}');

test("the signed bytes are those of the specification of DSSE", () => {
  const bytes = signedBytes("http://example.com/HelloWorld", Buffer.from("hello world"));
  expect(bytes.toString()).toBe("DSSEv1 29 http://example.com/HelloWorld 11 hello world");
});

test("the lengths are those of the bytes, not of the characters", () => {
  expect(signedBytes("é", Buffer.from("ü")).toString()).toBe("DSSEv1 2 é 2 ü");
});

test("a signature is that of Ed25519 in RFC 8032", async () => {
  const pem = newSigningKeyPem();
  const key = signingKeyFrom(pem);
  const expected = sign(null, signedBytes(TYPE, PAYLOAD), createPrivateKey(pem));
  expect(Buffer.from(key.sign(TYPE, PAYLOAD))).toEqual(expected);
  const spki = createPublicKey(pem).export({ type: "spki", format: "der" }).toString("base64");
  expect(key).toMatchObject({ publicKey: spki, id: keyIdOf(spki) });
});

test("another type, payload, key or signature does not verify", async () => {
  const key = signingKeyFrom(newSigningKeyPem());
  const signature = key.sign(TYPE, PAYLOAD);
  const other = signingKeyFrom(newSigningKeyPem());
  const bytes = signedBytes(TYPE, PAYLOAD);
  expect(await isSignature(key.publicKey, bytes, signature)).toBe(true);
  expect(await isSignature(key.publicKey, signedBytes(`${TYPE}x`, PAYLOAD), signature)).toBe(false);
  expect(await isSignature(other.publicKey, bytes, signature)).toBe(false);
  expect(await isSignature(key.publicKey, signedBytes(TYPE, Buffer.from('{"a":2}')), signature)).toBe(false);
  for (let bit = 0; bit < signature.length * 8; bit += 7) {
    const changed = Uint8Array.from(signature);
    changed[bit >> 3]! ^= 1 << (bit & 7);
    expect(await isSignature(key.publicKey, bytes, changed)).toBe(false);
  }
  expect(await isSignature(key.publicKey, bytes, new Uint8Array(0))).toBe(false);
  expect(await isSignature("bm90IGEga2V5", bytes, signature)).toBe(false);
});

test("only a private Ed25519 key is accepted", () => {
  expect(() => signingKeyFrom("-----BEGIN PRIVATE KEY-----\nMC4=\n-----END PRIVATE KEY-----\n")).toThrow();
  expect(() => signingKeyFrom("")).toThrow();
});
