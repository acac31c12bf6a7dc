// The fast key pairs agree with those of the library, in every operation that Fleet uses.

import { createAccount, createOperator, createUser, fromPublic } from "@nats-io/jwt";
import { describe, expect, test } from "vitest";
import { keyPairOf, withNodeCrypto } from "../../../../shared/bus/access/key-pair.ts";

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
