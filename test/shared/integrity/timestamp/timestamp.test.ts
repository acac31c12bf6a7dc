/** Time-stamps of a real authority, `openssl ts`, and every changed part of them. */
import { createHash, generateKeyPairSync, randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { isCertifiedSignature } from "../../../../shared/integrity/timestamp/certificates.ts";
import { derValue } from "../../../../shared/integrity/timestamp/der.ts";
import { timestampRequest } from "../../../../shared/integrity/timestamp/timestamp-request.ts";
import { judgeTimestamp } from "../../../../shared/integrity/timestamp/timestamp-response.ts";
import { TimestampAuthority } from "../../../harness/anchors/timestamp-authority.ts";

let authority: TimestampAuthority;
let other: TimestampAuthority;
const content = "fleet/audit/default\n2\n…\n";
const bytes = Buffer.from(content);
/** Every so many bytes is changed, from another one on in each run. */
const STRIDE = 9;

beforeAll(async () => {
  authority = await TimestampAuthority.start();
  other = await TimestampAuthority.start();
});
afterAll(async () => {
  await authority.close();
  await other.close();
});

const trusted = () => [authority.ca];

test("a time-stamp is verified as openssl verifies it", async () => {
  const { bytes: request, nonce } = await timestampRequest(bytes);
  const before = Date.now();
  const response = authority.reply(request);
  const { problem, at } = await judgeTimestamp(response, bytes, { authorities: trusted(), nonce });
  expect(problem).toBeNull();
  expect(Date.parse(at!)).toBe(authority.timeIn(response).getTime());
  // It has whole seconds.
  expect(Math.abs(Date.parse(at!) - before)).toBeLessThan(60_000);
  expect(authority.verifies(response, content)).toBe(true);
  expect((await judgeTimestamp(response, bytes, { authorities: [], nonce: null })).problem).toBeNull();
});

test("of another content, of another request, of another authority", async () => {
  const { bytes: request, nonce } = await timestampRequest(bytes);
  const response = authority.reply(request);
  const judged = async (data: Uint8Array, trust: Parameters<typeof judgeTimestamp>[2]) =>
    (await judgeTimestamp(response, data, trust)).problem;
  const authorities = trusted();
  expect(await judged(Buffer.from("another"), { authorities, nonce })).toBe("it is of another content");
  expect(await judged(bytes, { authorities, nonce: randomBytes(8) })).toBe(
    "it is the response to another request",
  );
  expect(await judged(bytes, { authorities: [other.ca], nonce })).toContain("its signature is not valid");
  expect(other.verifies(response, content)).toBe(false);
});

test("a refusal, a certificate for another purpose, and rubbish", async () => {
  const authorities = trusted();
  const { bytes: request, nonce } = await timestampRequest(bytes);
  // An imprint of SHA-1 is not among the digests of the authority.
  const weak = Buffer.from(request);
  const hash = weak.indexOf(createHash("sha256").update(bytes).digest());
  expect(hash).toBeGreaterThan(0);
  weak.writeUInt8(0x7f, hash - 5);
  const refused = authority.reply(weak);
  expect((await judgeTimestamp(refused, bytes, { authorities, nonce })).problem).toContain("refused it");
  for (const rubbish of [Buffer.alloc(0), Buffer.from("no"), randomBytes(300)])
    expect((await judgeTimestamp(rubbish, bytes, { authorities, nonce })).problem).not.toBeNull();
});

test("no changed byte makes a response the time-stamp of another content or of another time", async () => {
  const { bytes: request, nonce } = await timestampRequest(bytes);
  const response = authority.reply(request);
  const trust = { authorities: trusted(), nonce };
  const sound = await judgeTimestamp(response, bytes, trust);
  let refused = 0;
  const first = Math.floor(Math.random() * STRIDE);
  for (let i = first; i < response.length; i += STRIDE) {
    const changed = Buffer.from(response);
    changed[i] = changed[i]! ^ 0x01;
    const { problem, at } = await judgeTimestamp(changed, bytes, trust);
    // Some bytes mean nothing, such as those of the root, which the verifier has itself.
    if (problem === null) expect([i, at]).toEqual([i, sound.at]);
    else refused += 1;
    const other = await judgeTimestamp(changed, Buffer.from("another"), trust);
    expect([i, other.problem === null]).toEqual([i, false]);
  }
  expect(refused).toBeGreaterThan(response.length / STRIDE / 2);
});

test("a certificate for another purpose, and one that the signature does not name, make no time-stamp", async () => {
  const { bytes: request, nonce } = await timestampRequest(bytes);
  const response = authority.reply(request);
  const judged = async (signer: "tsa" | "web", naming: boolean) => {
    const forged = authority.resigned(response, signer, naming);
    return (await judgeTimestamp(forged, bytes, { authorities: trusted(), nonce })).problem;
  };
  expect(await judged("tsa", true)).toBeNull();
  expect(await judged("tsa", false)).toContain("another certificate");
  expect(await judged("web", true)).toBe("its certificate is not one of a time-stamp authority");
  expect(authority.verifies(authority.resigned(response, "web", true), content)).toBe(false);
});

test("a key of an empty kind has no signature of an unknown algorithm", () => {
  const { publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const spki = publicKey.export({ format: "der", type: "spki" }).toString("hex");
  const kind = "06072a8648ce3d0201";
  expect(spki.startsWith(`30593013${kind}`)).toBe(true);
  const emptied = spki.replace(`30593013${kind}`, "3052300c0600");
  const signature = Buffer.from("3006020101020101", "hex");
  for (const hex of [spki, emptied])
    for (const algorithm of ["", "2b"]) {
      const signed = { algorithm, text: bytes, signature };
      expect(isCertifiedSignature({ publicKey: derValue(Buffer.from(hex, "hex")) }, signed)).toBe(false);
    }
});
