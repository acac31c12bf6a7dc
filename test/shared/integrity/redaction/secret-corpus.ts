// Contents with one secret each, as checkpoints of agents have them. Secrets are invented, and filled with words by which any remaining
// part is found. The corpus is larger than what redaction finds: what it cannot find stands here too.

import { SECRETS } from "../../protocol/secrets.ts";

export interface SecretCase {
  readonly name: string;
  readonly content: unknown;
  /** Characters that must not remain. Default: those of every invented secret. */
  readonly gone?: RegExp;
}

const WORD = "Qz7Vk9";
const fill = (length: number): string => WORD.repeat(Math.ceil(length / WORD.length)).slice(0, length);

/** The known secrets of the agent. */
export const KNOWN = ['Zq8/Wm4+Rt6=Xy2 é"k', "postgres-Jk5Lm8Np3"] as const;

/** A secret of each shape, in each place of a checkpoint. */
const PLACES: readonly (readonly [string, (secret: string) => unknown])[] = [
  [
    "a transcript",
    (s) => ({ partial_work: `> curl -v https://api.internal/v1\n< HTTP/1.1 200\n${s}\n< done` }),
  ],
  ["a diff", (s) => ({ diff: `--- a/.env\n+++ b/.env\n@@ -1,2 +1,2 @@\n-NAME=x\n+VALUE ${s}\n unchanged` })],
  ["JSON in a string", (s) => ({ output: JSON.stringify({ status: "ok", body: { note: s } }) })],
  ["a list", (s) => ({ execution_state: { completed_items: ["build", `ran with ${s}`] } })],
  ["a name", (s) => ({ context_summary: { [`seen ${s}`]: true } })],
];

const shapes = Object.entries(SECRETS).flatMap(([name, secret]) =>
  PLACES.filter(([place]) => !(place === "JSON in a string" && secret.includes("\\"))).map(
    ([place, put]): SecretCase => ({ name: `${name} in ${place}`, content: put(secret) }),
  ),
);

const MEMBERS = [
  "password",
  "db_password",
  "dbPassword",
  "DB_PASSWD",
  "apiKey",
  "api_key",
  "x-api-key",
  "secret",
  "clientSecret",
  "token",
  "access_token",
  "refreshToken",
  "private_key",
  "signingKey",
  "accountkey",
  "creds",
  "credential",
  "passphrase",
  "seed",
  "session_cookie",
  "password2",
  "API_KEY_2",
  "passwordConfirm",
  "DB_PASSWORD_PROD",
  "STRIPE_KEY",
];
const members = MEMBERS.map(
  (name): SecretCase => ({ name: `the member ${name}`, content: { config: { [name]: fill(20) } } }),
);

const structured: SecretCase[] = [
  { name: "headers", content: { headers: { Authorization: `Basic ${fill(24)}==` } } },
  {
    name: "a list of headers",
    content: { headers: [{ name: "Authorization", value: `Bearer ${fill(24)}` }] },
  },
  { name: "variables of a manifest", content: { env: [{ name: "DB_PASSWORD", value: fill(16) }] } },
  { name: "cookies", content: { headers: { "set-cookie": [`sid=${fill(24)}; Path=/`] } } },
  { name: "a list of secrets", content: { secrets: [fill(20), fill(18)] } },
  { name: "a secret with its value", content: { secret: { value: fill(20), version: 3 } } },
  {
    name: "lines of a private key",
    content: {
      lines: [
        ["-----BEGIN EC PRIV", "ATE KEY-----"].join(""),
        fill(64),
        fill(64),
        "-----END EC PRIVATE KEY-----",
      ],
    },
  },
  {
    name: "a comment that switches rules off",
    content: { file: `// secretlint-disable\nAWS_SECRET_ACCESS_KEY = "${fill(40)}"` },
  },
  { name: "an AWS secret key", content: { text: `aws_secret_access_key = ${fill(40)}` } },
  { name: "a Shopify token", content: { text: ["shp", "at_", "5e7a1".repeat(6), "5e"].join("") } },
  {
    name: "a password in a URL",
    content: { text: `git clone https://bot:${fill(20)}@git.example.com/a.git` },
  },
  {
    name: "an env dump",
    content: { stdout: `HOME=/root\nPATH=/usr/bin\nOPENAI_API_KEY=${fill(30)}\nTERM=xterm` },
  },
  {
    name: "a docker command",
    content: { command: `docker login --password ${fill(16)}`.replace("--password ", "--password=") },
  },
  {
    name: "JSON twice in a string",
    content: { text: JSON.stringify(JSON.stringify({ api_key: fill(24) })) },
  },
];

const [odd, plain] = KNOWN;
const base64 = (text: string): string => Buffer.from(text).toString("base64");
const hex = (text: string): string => Buffer.from(text).toString("hex");
const known: SecretCase[] = [
  { name: "as it is", content: { a: `the value is ${odd}.` }, gone: /Zq8|Rt6|Xy2/ },
  { name: "in JSON in a string", content: { a: JSON.stringify({ v: odd }) }, gone: /Zq8|Rt6|Xy2/ },
  { name: "in Base64", content: { a: base64(odd) }, gone: new RegExp(base64(odd).slice(2, 12)) },
  {
    name: "in Base64 after a user name",
    content: { a: `Authorization: ${base64(`app:${plain}`)}` },
    gone: new RegExp(base64(`app:${plain}`).slice(8, 20)),
  },
  {
    name: "in Base64 at the second byte",
    content: { a: base64(`u:${plain}`) },
    gone: new RegExp(base64(`u:${plain}`).slice(6, 18)),
  },
  { name: "in hex", content: { a: hex(plain) }, gone: new RegExp(hex(plain).slice(4, 20)) },
  {
    name: "in upper-case hex",
    content: { a: hex(plain).toUpperCase() },
    gone: new RegExp(hex(plain).toUpperCase().slice(4, 20)),
  },
  { name: "percent-encoded", content: { a: `?p=${encodeURIComponent(odd)}&x=1` }, gone: /Zq8|Rt6|Xy2/ },
  { name: "in a form", content: { a: `p=${new URLSearchParams({ p: odd })}` }, gone: /Zq8|Rt6|Xy2/ },
  { name: "with hidden characters", content: { a: plain.replace("Jk5", "J\u200bk5") }, gone: /k5Lm8|Np3/ },
  { name: "cut off", content: { a: `${"x".repeat(50)} ${"Kw9".repeat(12)}` }, gone: /Kw9/ },
].map((one) => ({ ...one, name: `a known secret ${one.name}` }));
/** Longer than what a text keeps of it. */
export const CUT_SECRET = "Kw9".repeat(12) + fill(20);

const LINES = [
  `DB_PASS=${fill(16)}`,
  `export MYSQL_PWD='${fill(16)}'`,
  `SECRET_KEY=${fill(16)}`,
  `ENCRYPTION_KEY: "${fill(16)}"`,
  `mysql -u root --password ${fill(16)}`,
  `curl -u admin:${fill(16)} http://internal`,
  `curl --user "admin:${fill(16)}" http://internal`,
  `curl -H 'Cookie: session=${fill(16)}'`,
  `git clone https://${fill(20)}@github.com/acme/app`,
  `password=Zx9kQ2mV[${fill(12)}`,
  `password = "correct-${fill(6)}"`,
];
const lines = LINES.map((text): SecretCase => ({ name: `the line ${text.slice(0, 16)}`, content: { text } }));

const NESTED = [
  { secrets: { github: fill(16), user: "app" } },
  { credentials: { db: fill(16) } },
  { password: { old: fill(16), new: fill(18) } },
  { api_key: { current: { plain: fill(16) } } },
  { args: ["mysql", "--password", fill(16)] },
];
const nested = NESTED.map((content): SecretCase => ({ name: `below ${Object.keys(content)[0]}`, content }));

/** Redaction does not find these, which its documents state. */
const missed: SecretCase[] = [
  {
    name: "an unknown secret in Base64",
    content: { a: base64(`the code is ${fill(20)}`) },
    gone: /UXo3|Vms5|N1Zr/,
  },
  { name: "a password in prose", content: { a: `Log in as root with ${fill(10)}` } },
  { name: "a password of an option of one letter", content: { a: `docker login -p ${fill(16)}` } },
  { name: "a secret in two texts", content: { a: [`first half ${fill(6)}`, `second ${fill(6)}`] } },
];

export const SECRET_CASES: readonly SecretCase[] = [
  ...shapes,
  ...members,
  ...structured,
  ...known,
  ...lines,
  ...nested,
  ...missed,
];
