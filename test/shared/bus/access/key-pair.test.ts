// The fast key pairs agree with those of the library, in every operation that Fleet uses.

import { createAccount, createCurve, createOperator, createUser, fromPublic } from "@nats-io/jwt";
import { describe, expect, test } from "vitest";
import { isSignedBy, keyPairOf, withNodeCrypto } from "../../../../shared/bus/access/key-pair.ts";

describe.each([
  ["operator", createOperator],
  ["account", createAccount],
  ["user", createUser],
] as const)("a key of the %s", (_, create) => {
  const theirs = create();
  const ours = withNodeCrypto(theirs);
  const message = Buffer.from("a challenge of the server");

  test("has the same public and private text", () => {
    expect(ours.getPublicKey()).toBe(theirs.getPublicKey());
    expect(Buffer.from(ours.getPrivateKey()).toString()).toBe(Buffer.from(theirs.getPrivateKey()).toString());
  });

  test("has the same seed, and is the same key from that seed", () => {
    expect(Buffer.from(ours.getSeed())).toEqual(Buffer.from(theirs.getSeed()));
    expect(keyPairOf(theirs.getSeed()).getPublicKey()).toBe(theirs.getPublicKey());
  });

  test("signs alike", () => {
    expect(Buffer.from(ours.sign(message))).toEqual(Buffer.from(theirs.sign(message)));
    expect(fromPublic(ours.getPublicKey()).verify(message, ours.sign(message))).toBe(true);
  });

  test("verifies alike", () => {
    const [name, signature] = [theirs.getPublicKey(), theirs.sign(message)];
    expect(isSignedBy(name, message, signature)).toBe(true);
    expect(isSignedBy(name, Buffer.from("another message"), signature)).toBe(false);
    expect(isSignedBy(create().getPublicKey(), message, signature)).toBe(false);
    expect(isSignedBy(name.slice(0, 40), message, signature)).toBe(false);
    expect(isSignedBy(`${name.slice(0, -1)}${name.endsWith("A") ? "B" : "A"}`, message, signature)).toBe(
      false,
    );
  });
});

test.each([
  [
    "an altered seed",
    (seed: string) => `${seed.slice(0, 20)}${seed[20] === "A" ? "B" : "A"}${seed.slice(21)}`,
  ],
  ["half a seed", (seed: string) => seed.slice(0, 30)],
  ["a public key", () => createUser().getPublicKey()],
  ["nothing", () => ""],
])("%s is refused", (_, damage) => {
  const seed = Buffer.from(createUser().getSeed()).toString();
  expect(() => keyPairOf(Buffer.from(damage(seed)))).toThrow();
});

test("a curve key is the same key from its seed", () => {
  const [ours, theirs] = [createCurve(), createCurve()];
  const read = keyPairOf(ours.getSeed());
  const sealed = theirs.seal(Buffer.from("a request"), read.getPublicKey());
  expect(read.getPublicKey()).toBe(ours.getPublicKey());
  expect(Buffer.from(read.open(sealed, theirs.getPublicKey())!).toString()).toBe("a request");
});
