// Invented secrets of every known shape, assembled at run time so that this file contains none. Each is
// filled with a word by which a test finds any remaining part of it.

import fc from "fast-check";

const WORD = "Qz7Vk9";
/** Matches any remaining part of a secret. One word of hex digits alone may also be part of a hash. */
export const SECRET_PART = /Qz7Vk9|QZ7VK9|Q2Z7V|(?:5e7a1){3}/;

const fill = (length: number, word = WORD) => word.repeat(Math.ceil(length / word.length)).slice(0, length);
const upper = (length: number) => fill(length, WORD.toUpperCase());
const base32 = (length: number) => fill(length, "Q2Z7V");
const hex = (length: number) => fill(length, "5e7a1");
const join = (...parts: string[]) => parts.join("");

export const SECRETS: Readonly<Record<string, string>> = {
  "AWS key id": join("AK", "IA", upper(16)),
  "GitHub token": join("gh", "p_", fill(36)),
  "fine-grained GitHub token": join("github", "_pat_", fill(22), "_", fill(59)),
  "GitLab token": join("gl", "pat-", fill(20)),
  "Slack token": join("xo", "xb-", fill(24)),
  "Slack webhook": join("https://hooks.sl", "ack.com/services/", fill(9), "/", fill(24)),
  "Anthropic key": join("sk", "-ant-api03-", fill(80)),
  "OpenAI key": join("sk", "-proj-", fill(48)),
  "Google key": join("AI", "za", fill(35)),
  "Stripe key": join("sk", "_live_", fill(24)),
  "npm token": join("np", "m_", fill(36)),
  "PyPI token": join("py", "pi-", fill(60)),
  "model hub token": join("h", "f_", fill(34)),
  "mail key": join("S", "G.", fill(22), ".", fill(43)),
  "cloud token": join("do", "p_v1_", hex(64)),
  "vault token": join("hv", "s.", fill(24)),
  "bot token": join("1234567890", ":AA", fill(33)),
  "JSON web token": join("ey", "J", fill(20), ".ey", "J", fill(40), ".", fill(43)),
  "Fleet key": join("fle", "et_", "q2z7vq2z7vq2z7vq", "_", fill(42), "A"),
  "NATS seed": join("S", "U", base32(56)),
  "age key": join("AGE-SECRET", "-KEY-1", upper(58)),
  "bearer token": `Authorization: Bearer ${fill(40)}`,
  "basic authorization": `authorization: Basic ${fill(40)}=`,
  "URL with a password": `postgres://app:${fill(16)}@db.internal:5432/app`,
  "password in a setting": `DB_PASSWORD=${fill(12)}`,
  "token in a setting": `export DEPLOY_TOKEN=${fill(12)}`,
  "quoted token in a setting": `CI_JOB_TOKEN='${fill(12)}'`,
  "login of Docker": `"auth": "${Buffer.from("agent:").toString("base64")}${fill(24)}"`,
  "password of netrc": `machine git.internal login app password ${fill(12)}`,
  "signature of an address": `https://x.blob.core.windows.net/c?sv=1&sig=${fill(40)}%3D`,
  "secret in JSON": `"client_secret": "${fill(24)}"`,
  "secret in quoted JSON": `{\\"password\\":\\"${fill(24)}\\"}`,
  "key in YAML": `api_key: ${fill(24)}`,
  "private key": join(
    "-----BEGIN RSA PRIV",
    "ATE KEY-----\n",
    `${fill(64)}\n`.repeat(20),
    "-----END RSA PRIV",
    "ATE KEY-----",
  ),
  "private key without its end": join("-----BEGIN PRIV", "ATE KEY-----\n", `${fill(64)}\n`.repeat(20)),
};

export const anySecret = fc.constantFrom(...Object.values(SECRETS));

const SPACE = "\u200b";

/** Every secret, and again with zero width spaces inside. */
export const WRITTEN_SECRETS: readonly (readonly [name: string, secret: string])[] = Object.entries(
  SECRETS,
).flatMap(([name, secret]) => [
  [name, secret],
  [`${name}, split`, secret.replaceAll(/(?<=...)(?=.)/g, SPACE)],
]);

/** Without the zero width spaces. */
export const joined = (text: string): string => text.replaceAll(SPACE, "");
