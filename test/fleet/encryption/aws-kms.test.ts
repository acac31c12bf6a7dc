/**
 * A root key in AWS KMS, with the official client: against `moto_server` (PyPI: `moto[server]`), an independent implementation of KMS, where it is on PATH,
 * and everywhere against a server that answers as KMS does when it throttles, refuses, or hangs.
 */
import { once } from "node:events";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { AwsClient } from "aws4fetch";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import {
  KeyEncryptionError,
  type KeyEncryptionKey,
} from "../../../shared/integrity/encryption/key-encryption-key.ts";
import { openRootKeys } from "../../../shared/integrity/encryption/root-keys.ts";
import { hasObjectStore, ObjectStore } from "../../harness/anchors/object-store.ts";

const REGION = "eu-central-1";
const ARN = `arn:aws:kms:${REGION}:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab`;
const CONTEXT = "bucket acme/open";
const KEY = Buffer.from("a data key of thirty-two bytes..");
const CREDENTIALS = { AWS_ACCESS_KEY_ID: "AKIAEXAMPLE", AWS_SECRET_ACCESS_KEY: "secret" };

beforeAll(() => Object.assign(process.env, CREDENTIALS));
afterEach(() => {
  delete process.env.AWS_ENDPOINT_URL_KMS;
});

async function kmsKey(endpoint: string, arn = ARN): Promise<KeyEncryptionKey> {
  process.env.AWS_ENDPOINT_URL_KMS = endpoint;
  return (await openRootKeys([`awskms:${arn}`], { setting: "FLEET_ENCRYPTION_KEY", env: process.env }))[0];
}

let moto: ObjectStore | undefined;
beforeAll(async () => {
  if (hasObjectStore) moto = await ObjectStore.start();
});
afterAll(() => moto?.close());

test.runIf(hasObjectStore)("KMS unwraps what it wrapped, in the same context only", async () => {
  const { url } = moto!;
  const [first, second] = [await newKmsKey(url), await newKmsKey(url)];
  const key = await kmsKey(url, first);
  expect(key.id).toBe(`awskms:${first}`);
  const wrapped = await key.wrap(KEY, CONTEXT);
  expect(Buffer.from(wrapped).includes(KEY)).toBe(false);
  expect(Buffer.from(await (await kmsKey(url, first)).unwrap(wrapped, CONTEXT))).toEqual(KEY);
  await expect(key.unwrap(wrapped, "bucket other/open")).rejects.toMatchObject({ kind: "invalid" });
  await expect(key.unwrap(Buffer.from("nothing"), CONTEXT)).rejects.toMatchObject({ kind: "invalid" });
  await expect((await kmsKey(url, second)).unwrap(wrapped, CONTEXT)).rejects.toThrow(KeyEncryptionError);
  const missing = first.replace(/[^/]+$/, "00000000-0000-4000-8000-000000000000");
  await expect((await kmsKey(url, missing)).wrap(KEY, CONTEXT)).rejects.toMatchObject({ kind: "refused" });
});

async function newKmsKey(url: string): Promise<string> {
  const client = new AwsClient({
    accessKeyId: "AKIAEXAMPLE",
    secretAccessKey: "secret",
    service: "kms",
    region: REGION,
  });
  const answer = await client.fetch(url, {
    method: "POST",
    headers: { "content-type": "application/x-amz-json-1.1", "x-amz-target": "TrentService.CreateKey" },
    body: "{}",
  });
  return ((await answer.json()) as { KeyMetadata: { Arn: string } }).KeyMetadata.Arn;
}

/** Answers each request with the next of these: an error of KMS, bytes, or nothing. */
type KmsAnswer = { readonly status: number; readonly type: string } | { readonly bytes: Buffer } | "hang";

let faulty: Server;
let answers: KmsAnswer[];
let requests: { readonly target: string; readonly body: Record<string, unknown> }[];
beforeEach(async () => {
  answers = [];
  requests = [];
  faulty = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const target = String(request.headers["x-amz-target"]);
      requests.push({ target, body: JSON.parse(Buffer.concat(parts).toString()) });
      respond(response, target, answers.length > 1 ? answers.shift()! : answers[0]!);
    });
  }).listen(0, "127.0.0.1");
  await once(faulty, "listening");
});
afterEach(async () => {
  faulty.closeAllConnections();
  faulty.close();
  await once(faulty, "close");
});

function respond(response: ServerResponse, target: string, answer: KmsAnswer): void {
  if (answer === "hang") return;
  const [status, body] =
    "bytes" in answer
      ? [
          200,
          { [target.endsWith("Encrypt") ? "CiphertextBlob" : "Plaintext"]: answer.bytes.toString("base64") },
        ]
      : [answer.status, { __type: answer.type, message: "a message with arn:aws:iam::1:user/x" }];
  response.writeHead(status, { "content-type": "application/x-amz-json-1.1" }).end(JSON.stringify(body));
}

const faultyUrl = () => `http://127.0.0.1:${(faulty.address() as AddressInfo).port}`;

test("the context is the encryption context of each request, and the key is named in both directions", async () => {
  answers = [{ bytes: Buffer.from("wrapped") }];
  const key = await kmsKey(faultyUrl());
  expect(Buffer.from(await key.wrap(KEY, CONTEXT)).toString()).toBe("wrapped");
  await key.unwrap(Buffer.from("wrapped"), CONTEXT);
  expect(requests).toMatchObject([
    { target: "TrentService.Encrypt", body: { KeyId: ARN, EncryptionContext: { fleet: CONTEXT } } },
    { target: "TrentService.Decrypt", body: { KeyId: ARN, EncryptionContext: { fleet: CONTEXT } } },
  ]);
});

test("throttling that passes is tried again", async () => {
  const throttled = { status: 400, type: "ThrottlingException" };
  answers = [throttled, { status: 500, type: "KMSInternalException" }, { bytes: KEY }];
  expect(Buffer.from(await (await kmsKey(faultyUrl())).unwrap(Buffer.from("wrapped"), CONTEXT))).toEqual(KEY);
  expect(requests).toHaveLength(3);
});

test.each([
  [400, "ThrottlingException", "unavailable"],
  [500, "KMSInternalException", "unavailable"],
  [503, "DependencyTimeoutException", "unavailable"],
  [400, "AccessDeniedException", "refused"],
  [400, "NotFoundException", "refused"],
  [400, "DisabledException", "refused"],
  [400, "KMSInvalidStateException", "refused"],
  [400, "InvalidCiphertextException", "invalid"],
  [400, "IncorrectKeyException", "invalid"],
])("the lasting answer %i %s is %s", async (status, type, kind) => {
  answers = [{ status, type }];
  await expect((await kmsKey(faultyUrl())).unwrap(Buffer.from("wrapped"), CONTEXT)).rejects.toMatchObject({
    kind,
    details: { key: ARN, problem: type },
  });
  expect(requests.length).toBe(kind === "unavailable" ? 3 : 1);
});

test("a server that hangs or is not there is left after a time", async () => {
  answers = ["hang"];
  const began = performance.now();
  const key = await kmsKey(faultyUrl());
  await expect(key.wrap(KEY, CONTEXT)).rejects.toMatchObject({ kind: "unavailable" });
  expect(performance.now() - began).toBeLessThan(60_000);
  await expect((await kmsKey("http://127.0.0.1:9")).wrap(KEY, CONTEXT)).rejects.toMatchObject({
    kind: "unavailable",
  });
}, 120_000);
