import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { ConfigError, readConfig } from "../../../../shared/runtime/settings/config.ts";
import { knownSecrets, redactionFields } from "../../../../shared/sdk/redaction/secret-settings.ts";
import { ADDRESS_CASES } from "./address-passwords.ts";

const folder = mkdtempSync(join(tmpdir(), "fleet-secrets-"));
afterAll(() => rmSync(folder, { recursive: true }));

const known = (env: Record<string, string>) => knownSecrets(readConfig(redactionFields, env), env);

test.each([
  "OPENAI_API_KEY",
  "DB_PASSWORD",
  "PGPASS",
  "GITHUB_TOKEN",
  "MY_SECRET_2",
  "SESSION_COOKIE",
  "NATS_CREDS",
  "SIGNING_KEY",
  "BASIC_AUTH",
  "NODE_AUTH_TOKEN",
])("the value of %s", (name) => {
  const isNamed = name !== "PGPASS";
  expect(known({ [name]: "Qz7-Vk9-x2" })).toEqual(isNamed ? ["Qz7-Vk9-x2"] : []);
});

test.each([
  ["DB_PASSWORD", "short"],
  ["DB_PASSWORD", "disabled"],
  ["DB_PASSWORD", "********"],
  ["API_KEY", "1234567890"],
  ["SSH_AUTH_SOCK", "Qz7-Vk9-x2"],
  ["AWS_ACCESS_KEY_ID", "Qz7-Vk9-x2"],
  ["TOKEN_FILE", "Qz7-Vk9-x2"],
  ["MY_SECRET", "/tmp"],
  ["MY_SECRET", "~/secrets/a1"],
  ["MY_SECRET", "https://example.com/a1"],
  ["MAX_TOKENS", "true-or-false"],
  ["AUTH", hostname()],
  ["PATH", "Qz7-Vk9-x2"],
  ["PWD", "/a-removed/Folder1/project"],
  ["OLDPWD", "/a-removed/Folder1/project"],
  ["TOKENIZER", "cl100k_base"],
  ["SORT_KEY", "createdAt"],
  ["PARTITION_KEY", "tenantId"],
  ["ROUTING_KEY", "orders.created.v1"],
  ["AWS_SECRETS_REGION", "eu-west-1"],
  ["TOKEN_MODEL", "gpt-4o-mini"],
  ["API_KEY_HEADER", "X-Api-Key"],
  ["AUTH_EMAIL", "a.smith@example.com"],
  ["AUTH_DOMAIN", "dev-1234.auth0.com"],
  ["AUTH_TYPE2", "OAuth2.0"],
  ["COOKIE_DOMAIN", "app2.example.com"],
  ["SECRET_BACKEND", "vault-kv2"],
  ["TOKEN_ISSUER", "login.corp2.example"],
  ["SSL_KEY", "certs/server.key"],
  ["PRIVATE_KEY", "certs/server.key"],
  ["GPG_KEY", "E3FF2839C048B25C084DEBE9B26995E310250568"],
  ["CREDENTIALS", "config/credentials.json"],
  ["GOOGLE_APPLICATION_CREDENTIALS", "/a-removed/google/key.json"],
  ["APP_SECRET", "/run/secrets/App1"],
  ["APP_SECRET", "secrets/app/database2"],
])("not %s=%s", (name, value) => expect(known({ [name]: value })).toEqual([]));

test.each([
  ["STRIPE_KEY", "Qz7Vk9Qz7Vk9Qz7Vk9Qz7"],
  ["AWS_SECRET_ACCESS_KEY", "Qz7Vk9/Qz7Vk9/Qz7Vk9"],
  ["APP_SECRET", "/Qz7Vk9Qz7/Vk9"],
])("and %s=%s", (name, value) => expect(known({ [name]: value })).toEqual([value]));

test("the passwords of all addresses of a variable", () => {
  const servers = "nats://a:Qz7Vk9-1@one:4222,nats://b:Qz7Vk9-2@two:4222";
  expect(known({ SERVERS: servers })).toEqual(["Qz7Vk9-1", "Qz7Vk9-2"]);
});

test.each(ADDRESS_CASES)("the password of an address with $name", ({ value, passwords }) => {
  expect(known({ DATABASE_URL: value })).toEqual(expect.arrayContaining([...passwords]));
});

test("in a list of hosts, the first password and all up to the last", () => {
  const [first, all] = ["delta-Qz7-1", "delta-Qz7-1@one:5672,b:delta-Qz7-2"];
  expect(known({ SERVERS: `amqp://a:${all}@two:5672` })).toEqual([first, all]);
});

test("of a value with many at signs, few beginnings", () => {
  expect(known({ DATABASE_URL: `x-y://a:${"delta@Qz7".repeat(1_000)}@h` }).length).toBeLessThanOrEqual(16);
});

test("of many addresses with many at signs, the first and the longest beginning, instead of a refusal", () => {
  const addresses = Array.from(
    { length: 60 },
    (_, i) => `amqp://a:first-Qz7-${i}${"@d%65lta".repeat(15)}@h/`,
  );
  const found = known({ BROKERS: addresses.join(","), MY_SECRET: "Qz7-Vk9-x2" });
  expect(found).toHaveLength(1 + 3 * 60);
  expect(found).toEqual(
    expect.arrayContaining(["Qz7-Vk9-x2", "first-Qz7-59", `first-Qz7-59${"@d%65lta".repeat(15)}`]),
  );
});

test("the password of an address, also decoded", () => {
  const url = "postgres://app:Qz7%2FVk9x2@db:5432/app";
  expect(known({ DATABASE_URL: url })).toEqual(["Qz7%2FVk9x2", "Qz7/Vk9x2"]);
});

test("variables that are named, and the lines of a file", () => {
  const path = join(folder, "secrets");
  writeFileSync(path, "first line 1\n\nsecond line 2\r\n", { mode: 0o600 });
  const env = { FLEET_SECRET_NAMES: "PLAIN,NOT_SET", PLAIN: "disabled", FLEET_SECRETS_FILE: path };
  expect(known(env)).toEqual(["disabled", "first line 1", "second line 2"]);
  chmodSync(path, 0o644);
  expect(() => known(env)).toThrow(ConfigError);
  expect(() => known(env)).toThrow("other users may read it");
});

test("what cannot be searched for is refused, without the value", () => {
  const path = join(folder, "short");
  writeFileSync(path, "long enough\nQz7\n", { mode: 0o600 });
  expect(() => known({ FLEET_SECRETS_FILE: path })).toThrow(
    /line 2.*at least 8 characters.*got 3 characters/,
  );
  expect(() => known({ FLEET_SECRET_NAMES: "PIN", PIN: "4711" })).toThrow(/PIN.*got 4 characters/);
  expect(() => known({ FLEET_SECRETS_FILE: join(folder, "none") })).toThrow("ENOENT");
  const many = Object.fromEntries(Array.from({ length: 501 }, (_, i) => [`TOKEN_${i}`, `Qz7-Vk9-${i}`]));
  expect(() => known(many)).toThrow(
    /FLEET_SECRETS_FILE, FLEET_SECRET_NAMES and the environment.*at most 500 secrets/,
  );
});
