import { randomBytes } from "node:crypto";
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  localKeyField,
  openLocalKeys,
  openRootKeys,
  rootKeyField,
} from "../../../../shared/integrity/encryption/root-keys.ts";
import { readConfig } from "../../../../shared/runtime/settings/config.ts";
import { newEncryptionKeyFile } from "../../../../shared/sdk/encryption/key-file.ts";

const setting = "FLEET_ENCRYPTION_KEY";
const newText = () => randomBytes(32).toString("base64");

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "fleet-root-keys-"));
});
afterAll(() => rmSync(dir, { recursive: true }));

function keyFile(name: string, text = `${newText()}\n`, mode = 0o600): string {
  const path = join(dir, name);
  writeFileSync(path, text, { mode });
  chmodSync(path, mode);
  return path;
}

const open = (sources: readonly string[], env: Record<string, string> = {}) =>
  openRootKeys(sources, { setting, env });

test("the first key wraps, and the others unwrap what they wrapped before", async () => {
  const old = `file:${keyFile("old")}`;
  const env = { NEXT_KEY: newText() };
  const [before] = await open([old]);
  const wrapped = await before.wrap(Buffer.from("secret"), "tenant acme");
  const keys = await open(["env:NEXT_KEY", old], env);
  expect(keys.map(({ id }) => id)).toEqual([expect.not.stringMatching(before.id), before.id]);
  expect(Buffer.from(await keys[1]!.unwrap(wrapped, "tenant acme")).toString()).toBe("secret");
  await expect(keys[0].unwrap(wrapped, "tenant acme")).rejects.toMatchObject({ kind: "invalid" });
});

test("local keys have the same ids and open what root keys wrapped", async () => {
  const source = `file:${keyFile("local")}`;
  const [root] = await open([source]);
  const [local] = openLocalKeys([source], { setting: "FLEET_SPOOL_KEY", env: {} });
  expect(local.id).toBe(root.id);
  const wrapped = await root.wrap(Buffer.from("secret"), "spool");
  expect(Buffer.from(await local.unwrap(wrapped, "spool")).toString()).toBe("secret");
});

test("a link to a private file is followed", async () => {
  const link = join(dir, "link");
  symlinkSync(keyFile("linked"), link);
  expect(await open([`file:${link}`])).toHaveLength(1);
});

test("a group may read the file, as container platforms mount secrets", async () => {
  expect(await open([`file:${keyFile("group", undefined, 0o440)}`])).toHaveLength(1);
});

/** Text that must be in no error. */
const LEAKED = newText();

test.each([
  ["missing", () => join(dir, "missing"), "ENOENT", false],
  ["readable by others", () => keyFile("readable", LEAKED, 0o604), "its mode is 604", true],
  ["writable by a group", () => keyFile("writable", LEAKED, 0o620), "its mode is 620", true],
  [
    "a link to a file that others read",
    () => linkTo(keyFile("exposed", LEAKED, 0o644)),
    "its mode is 644",
    true,
  ],
  ["a folder", () => dir, "it is no file", false],
  ["a large file", () => keyFile("large", LEAKED.repeat(2_000)), "bytes", false],
])("a key file that is %s is refused, without a part of it", async (_, pathOf, problem, isExposed) => {
  const path = pathOf();
  const refused = await open([`file:${path}`]).catch((error: unknown) => error);
  expect(refused).toMatchObject({
    message: "a secret cannot be read from its file",
    exitCode: 78,
    details: {
      setting,
      expected: "a file with mode 0600 of this user",
      problem: expect.stringContaining(problem),
    },
    hint: isExposed ? `close the file to others with: chmod 600 ${path}` : undefined,
  });
  expect(JSON.stringify(refused, Object.getOwnPropertyNames(refused))).not.toContain(LEAKED.slice(0, 12));
});

function linkTo(target: string): string {
  const link = join(dir, "link-to-exposed");
  symlinkSync(target, link);
  return link;
}

test.runIf(process.geteuid?.() === 0)("the key file of another user is refused", async () => {
  const { chownSync } = await import("node:fs");
  const path = keyFile("foreign");
  chownSync(path, 4_321, 4_321);
  await expect(open([`file:${path}`])).rejects.toMatchObject({
    details: { problem: "its owner is the user 4321" },
  });
});

test.each([
  ["too short", "c2hvcnQ="],
  ["not base64", `${LEAKED.slice(0, 43)}!`],
  ["two keys", `${LEAKED}\n${LEAKED}`],
])("a key that is %s is refused, without a part of it", async (_, text) => {
  const refused = await open([`file:${keyFile("malformed", text)}`]).catch((error: unknown) => error);
  expect(refused).toMatchObject({
    message: "a key of encryption at rest has another form",
    details: { setting, expected: "32 random bytes in base64, which are 44 characters" },
    hint: expect.stringContaining("fleet keys encryption-key"),
  });
  expect(JSON.stringify(refused, Object.getOwnPropertyNames(refused))).not.toContain(LEAKED.slice(0, 12));
});

test("a variable that is not set is refused", async () => {
  await expect(open(["env:ABSENT_KEY"])).rejects.toMatchObject({
    details: { setting, source: "env:ABSENT_KEY", variable: "ABSENT_KEY" },
  });
});

test("the same key under two names is refused", async () => {
  const text = newText();
  const source = `file:${keyFile("twice", text)}`;
  await expect(open([source, "env:SAME_KEY"], { SAME_KEY: text })).rejects.toThrow("are not different");
});

const ARN = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab";
const field = rootKeyField(setting, { description: "keys" });
const localField = localKeyField("FLEET_SPOOL_KEY", { description: "keys" });

test.each([
  "file:/etc/fleet/encryption.key",
  "env:FLEET_KEY_1, file:/etc/fleet/old.key",
  "vault:https://vault.example:8200/v1/transit/keys/fleet",
  "vault:https://vault.example/v1/teams/a/transit/keys/fleet-2?namespace=admin&token_file=/run/token",
  "vault:http://127.0.0.1:8200/v1/transit/keys/fleet",
  "vault:http://[::1]:8200/v1/transit/keys/fleet",
  `awskms:${ARN}`,
  "awskms:arn:aws-us-gov:kms:us-gov-west-1:111122223333:key/mrk-1234abcd12ab34cd56ef1234567890ab",
])("the setting %s names keys", (text) => {
  expect(field.parse(text)).toEqual(text.split(",").map((one) => one.trim()));
});

test.each([
  "",
  LEAKED,
  "file:",
  "file:encryption.key",
  "env:A,file:./encryption.key",
  "env:NO-NAME",
  "env:A,env:A",
  "vault:http://vault.example/v1/transit/keys/fleet",
  "vault:https://user:pass@vault.example/v1/transit/keys/fleet",
  "vault:https://vault.example/transit/keys/fleet",
  "vault:https://vault.example/v1/transit/keys/fleet?token=hvs.secret",
  "awskms:alias/fleet",
  "awskms:arn:aws:kms:eu-central-1:111122223333:alias/fleet",
  "awskms:arn:aws:s3:::bucket",
  `file:/key,${LEAKED}`,
])("the setting %s names no keys, and is not repeated", (text) => {
  expect(field.parse(text)).toBeUndefined();
  const read = () => readConfig({ keys: field }, { [setting]: text });
  expect(read).toThrow(setting);
  if (text.includes(LEAKED)) expect(read).not.toThrow(LEAKED.slice(0, 12));
});

test("a path without its form is answered with the form, and is not shown", () => {
  const read = () => readConfig({ keys: field }, { [setting]: "encryption.key" });
  expect(read).toThrow(
    /FLEET_ENCRYPTION_KEY: expected file:\/absolute\/path of a key file, .*; got another text, which is not shown because it may be a secret$/,
  );
});

test("a spool takes keys of this machine only", () => {
  expect(localField.parse("file:/key,env:NAME")).toEqual(["file:/key", "env:NAME"]);
  expect(localField.parse(`awskms:${ARN}`)).toBeUndefined();
  expect(localField.parse("vault:https://vault.example/v1/transit/keys/fleet")).toBeUndefined();
});

test("a new key file is private, is a root key, and is never written over", async () => {
  const path = join(dir, "made.key");
  const id = newEncryptionKeyFile(path);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect((await open([`file:${path}`]))[0].id).toBe(id);
  const before = readFileSync(path);
  expect(newEncryptionKeyFile(path)).toBeNull();
  expect(readFileSync(path)).toEqual(before);
});
