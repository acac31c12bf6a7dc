import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { KeyEncryptionKey } from "../../../../shared/integrity/encryption/key-encryption-key.ts";
import { openRootKeys } from "../../../../shared/integrity/encryption/root-keys.ts";
import { type TransitOptions, TransitServer } from "../../../harness/encryption/transit-server.ts";

const setting = "FLEET_ENCRYPTION_KEY";
const CONTEXT = "bucket acme/open";
const KEY = Buffer.from("a data key of thirty-two bytes..");

let server: TransitServer;
let dir: string;
beforeEach(async () => {
  server = await TransitServer.start();
  dir = mkdtempSync(join(tmpdir(), "fleet-transit-"));
});
afterEach(async () => {
  await server.close();
  rmSync(dir, { recursive: true });
});

async function transitKey(source = server.source, token = server.token): Promise<KeyEncryptionKey> {
  return (await openRootKeys([source], { setting, env: { VAULT_TOKEN: token } }))[0];
}

async function restarted(options: TransitOptions): Promise<void> {
  await server.close();
  server = await TransitServer.start(options);
}

const unwrapped = async (key: KeyEncryptionKey, wrapped: Uint8Array, context = CONTEXT) =>
  Buffer.from(await key.unwrap(wrapped, context));

test.each([false, true])("a key unwraps in its context only (derived key: %s)", async (derived) => {
  await restarted({ derived });
  const key = await transitKey();
  expect(key.id).toBe(`vault:${server.origin}/v1/transit/keys/fleet`);
  const wrapped = await key.wrap(KEY, CONTEXT);
  expect(Buffer.from(wrapped).includes(KEY)).toBe(false);
  expect(await unwrapped(await transitKey(), wrapped)).toEqual(KEY);
  await expect(key.unwrap(wrapped, "bucket other/open")).rejects.toMatchObject({ kind: "invalid" });
  const changed = Buffer.from(wrapped);
  changed[20] = changed[20] === 65 ? 66 : 65;
  await expect(key.unwrap(changed, CONTEXT)).rejects.toMatchObject({ kind: "invalid" });
  await expect(key.unwrap(Buffer.from("nothing"), CONTEXT)).rejects.toMatchObject({ kind: "invalid" });
});

test("what an earlier version of the key wrapped unwraps after a rotation, until the server forbids it", async () => {
  const key = await transitKey();
  const before = await key.wrap(KEY, CONTEXT);
  server.rotate();
  const after = await key.wrap(KEY, CONTEXT);
  expect([before, after].map((one) => Buffer.from(one).toString().slice(0, 9))).toEqual([
    "vault:v1:",
    "vault:v2:",
  ]);
  expect(await unwrapped(key, before)).toEqual(KEY);
  server.oldestVersion = 2;
  await expect(key.unwrap(before, CONTEXT)).rejects.toMatchObject({ kind: "refused" });
  expect(await unwrapped(key, after)).toEqual(KEY);
});

test("a server that does not bind a key to its context is refused at the first use", async () => {
  await restarted({ ignoresAssociatedData: true });
  const key = await transitKey();
  for (let time = 0; time < 2; time += 1)
    await expect(key.wrap(KEY, CONTEXT)).rejects.toMatchObject({
      kind: "refused",
      details: { next: expect.stringContaining("aes256-gcm96") },
    });
});

test("a token that its agent renews is read again", async () => {
  const file = join(dir, "token");
  writeFileSync(file, `${server.token}\n`, { mode: 0o600 });
  const key = await transitKey(`${server.source}?token_file=${file}`, "");
  const wrapped = await key.wrap(KEY, CONTEXT);
  server.token = "token-2";
  await expect(key.unwrap(wrapped, CONTEXT)).rejects.toMatchObject({
    kind: "refused",
    details: { status: 403 },
  });
  writeFileSync(file, "token-2\n", { mode: 0o600 });
  expect(await unwrapped(key, wrapped)).toEqual(KEY);
  rmSync(file);
  await expect(key.unwrap(wrapped, CONTEXT)).rejects.toMatchObject({
    kind: "refused",
    message: "the token for the root key cannot be read",
  });
});

test("a service does not start without a token, but without an answer of the server", async () => {
  await expect(transitKey(server.source, "")).rejects.toMatchObject({
    exitCode: 78,
    details: { setting, variable: "VAULT_TOKEN" },
  });
  server.faults.push("hang");
  await transitKey();
  expect(server.requests).toBe(0);
});

test("a namespace is part of the key", async () => {
  server.namespace = "team-a";
  const key = await transitKey(`${server.source}?namespace=team-a`);
  expect(key.id).toBe(`vault:${server.origin}/v1/transit/keys/fleet?namespace=team-a`);
  expect(await unwrapped(key, await key.wrap(KEY, CONTEXT))).toEqual(KEY);
  await expect((await transitKey()).wrap(KEY, CONTEXT)).rejects.toMatchObject({ kind: "refused" });
});

test.each([[429], [500], [503], ["cut" as const]])("a passing fault %s is tried again", async (fault) => {
  const key = await transitKey();
  const wrapped = await key.wrap(KEY, CONTEXT);
  server.faults.push(fault, fault);
  expect(await unwrapped(key, wrapped)).toEqual(KEY);
});

test.each([[503], ["cut" as const]])("a lasting fault %s is reported as unavailable", async (fault) => {
  const key = await transitKey();
  server.faults.push(fault, fault, fault);
  await expect(key.wrap(KEY, CONTEXT)).rejects.toMatchObject({
    kind: "unavailable",
    details: { key: key.id },
  });
});

test("a server that does not answer is left after a time, and the token is in no error", async () => {
  const key = await transitKey();
  server.faults.push("hang", "hang", "hang");
  const failure = await key.wrap(KEY, CONTEXT).catch((error: unknown) => error);
  expect(failure).toMatchObject({
    kind: "unavailable",
    message: "the server of the root key does not answer",
  });
  expect(JSON.stringify(failure, Object.getOwnPropertyNames(failure))).not.toContain(server.token);
  await server.close();
  await expect(key.wrap(KEY, CONTEXT)).rejects.toMatchObject({
    kind: "unavailable",
    details: { problem: "ECONNREFUSED" },
  });
  server = await TransitServer.start();
}, 60_000);

test("a redirection to another server is not followed, as it would get the token", async () => {
  const key = await transitKey();
  server.faults.push(307, 307, 307);
  await expect(key.wrap(KEY, CONTEXT)).rejects.toMatchObject({ kind: "unavailable" });
});
