// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are texts of agents.
// Contents without secrets, as checkpoints of agents have them: nothing may be removed from any of them.

import { createHash, randomBytes } from "node:crypto";

const sha = (name: string): string => createHash("sha256").update(name).digest("hex");
const commit = (name: string): string => createHash("sha1").update(name).digest("hex");
const UUID = "0190f3a2-7c1e-7b4d-9a55-3f0c6f1e2d3c";
const image = randomBytes(6_000).toString("base64");

export const HARMLESS: Readonly<Record<string, unknown>> = {
  "hashes of files": {
    files: [{ path: "src/auth/token.ts", sha256: sha("a"), mtime: "2026-01-02T03:04:05Z" }],
  },
  "a commit": {
    workspace: { head: commit("a"), branch: "fix/token-refresh", repo: "git@github.com:acme/app.git" },
  },
  "commits in text": { notes: `Merged ${commit("b")} into main; reverts ${commit("c").slice(0, 8)}.` },
  "a UUID": { id: UUID, task: `Continue ${UUID} from chk-${UUID}` },
  "hashes in text": { text: `sha256:${sha("c")} is the digest of the image; hash ${sha("d")}` },
  "a checkpoint": {
    metadata: { checkpoint_id: UUID, parent_ids: [UUID], agent_id: "coder-1", agent_type: "implementation" },
    compliance: { hash: sha("e"), event_log_ref: "audit/default/US-003#17" },
    artifacts: [{ sha256: sha("f"), name: "report.pdf", bytes: 123 }],
  },
  "a lock file": {
    diff: `+    "node_modules/jose": {\n+      "version": "6.2.17",\n+      "integrity": "sha512-${Buffer.from(sha("g") + sha("h"), "hex").toString("base64")}==",\n+      "license": "MIT"`,
  },
  "a yarn lock": { text: `checksum: 10c0/${sha("i")}${sha("j")}\n  resolution: "left-pad@npm:1.3.0"` },
  "a go sum": { text: `golang.org/x/crypto v0.1.0 h1:${Buffer.from(sha("k"), "hex").toString("base64")}` },
  "a Cargo lock": { text: `name = "ring"\nversion = "0.17.8"\nchecksum = "${sha("l")}"` },
  "pip hashes": { text: `requests==2.32.3 \\\n    --hash=sha256:${sha("m")}` },
  "an image": { src: `data:image/png;base64,${image}` },
  "bytes in Base64": { blob: image },
  "counts of tokens": {
    metrics: { tokens_consumed: 12_000, token_count: 5, max_tokens: "4096", tokens: ["a1b2c3d4e5"] },
  },
  "names of tokens": {
    tokenizer: { eos_token: "<|endoftext_50256|>", pad_token: "[PAD_0]", bos_token: "<s_1>" },
  },
  pages: { next_page_token: "CiAKGjBpNDd2Nmp2Zml2cXRwYjBpOXA", cursor: "eyJhIjoxfQ" },
  "a scan": { secret_scan: "passed", secretScan: { secrets_found: 0, tool: "gitleaks 8.18" } },
  policies: {
    password_policy: "at least 12 characters, 1 digit",
    token_ttl: "15m30s",
    has_password: "yes-2026",
  },
  flags: { password: true, token: 42, secret: null, cookie: false, api_key: [] },
  placeholders: {
    password: "********",
    token: "<token>",
    api_key: "${API_KEY}",
    secret: "{{ .Values.secret }}",
  },
  "more placeholders": {
    password: "changed: required",
    apiKey: "process.env.API_KEY",
    secret: "REDACTED-2026",
  },
  "names of variables": { secrets: ["DATABASE_PASSWORD", "OPENAI_API_KEY"], secret: "MY_APP_SECRET_2" },
  references: {
    secret: "vault:kv/app#db",
    private_key: "/etc/ssl/private/app1.key",
    credentials: "~/.aws/credentials2",
  },
  files: { private_key: "certs/server1.pem", token: "tokens2.json", seed: "seeds/users1.ts" },
  addresses: {
    token: "https://auth.example.com/oauth2/token",
    authorization: "https://example.com/authorize2",
  },
  "code that reads variables": {
    diff: [
      "+const password = process.env.DB_PASSWORD;",
      "+const token = await getToken(user1);",
      "+  apiKey: config.apiKey,",
      '+  secret = os.environ["APP_SECRET"]',
      "+  const { accessToken, refreshToken } = session;",
      "+  if (!password) throw new Error('password missing');",
      "+export type Token = { value: string };",
    ].join("\n"),
  },
  "code in Python": {
    code: 'token: str = os.environ.get("TOKEN")\ndef login(password: str, token: Optional[str] = None):',
  },
  "code in Go": {
    code: 'password := os.Getenv("DB_PASSWORD")\nfunc auth(token string, secret []byte) error {',
  },
  "code in YAML": {
    code: "password: ${DB_PASSWORD}\nsecretKeyRef:\n  name: db\n  key: password\ntoken: ${{ secrets.TOKEN }}",
  },
  "a schema": { code: '"password": { "type": "string", "minLength": 12 }, "token": { "type": "string" }' },
  SQL: {
    code: "ALTER TABLE users ADD COLUMN password_hash text; CREATE INDEX token_idx ON sessions (token);",
  },
  Terraform: { code: "password = var.db_password\nsecret_id = aws_secretsmanager_secret.db.id" },
  "a shell script": { code: 'curl -H "Authorization: Bearer $TOKEN" "$URL"\nexport API_KEY="${API_KEY:?}"' },
  "a test that counts": { code: "expect(tokens).toHaveLength(3);\nexpect(secrets.size).toBe(0);" },
  "prose on passwords": {
    notes:
      "Passwords must be hashed with argon2id. The token: it expires after an hour. Secret: none needed. Users forget the password often.",
  },
  "prose on keys": {
    notes: "The API key is read from the environment; rotate the signing key monthly. Cookies are HttpOnly.",
  },
  "a decision": {
    key_decisions: [{ decision: "Use JWT for sessions", rationale: "stateless tokens, 15 minute expiry" }],
  },
  "a goal": { goal: "Fix the login: the session token is lost after a refresh (bug 4711)" },
  "a heading on private keys": {
    notes: "Reject uploads that contain a private key. Check the header of PEM files.",
  },
  "a public key": {
    text: `-----BEGIN PUBLIC KEY-----\n${image.slice(0, 64)}\n-----END PUBLIC KEY-----`,
    public_key: image.slice(0, 44),
    sshKey_fingerprint: `SHA256:${image.slice(0, 43)}`,
  },
  "a certificate": { text: `-----BEGIN CERTIFICATE-----\n${image.slice(0, 128)}\n-----END CERTIFICATE-----` },
  "ids of cloud objects": {
    arn: "arn:aws:iam::123456789012:role/app",
    project: "acme-prod-1",
    key_id: "key/3f9c1a7e",
  },
  "a stack trace": {
    error:
      "Error: invalid token\n    at parseToken (/app/src/auth/token.ts:42:13)\n    at async login (/app/src/auth.ts:7:3)",
  },
  "a log": {
    log: '{"level":"info","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7","msg":"token refreshed"}',
  },
  "addresses with ports": {
    text: "nats://127.0.0.1:4222 postgres://db.internal:5432/app redis://localhost:6379/0",
  },
  "an address with a user": { text: "ssh://git@github.com:22/acme/app.git and https://bob@example.com/x" },
  "mail addresses": { text: "mailto:alice@example.com, user:bob@example.com" },
  "a docker digest": { image: `registry.example.com/app@sha256:${sha("n")}` },
  "entity tags": {
    headers: { etag: `"${sha("o").slice(0, 32)}"`, "x-request-id": UUID, "content-type": "text/plain" },
  },
  versions: { text: "node v24.21.0, typescript 7.0.2, OpenSSL 3.0.22, token-lib@1.2.3-beta.4" },
  "dates and numbers": {
    seed: "20260102030405",
    token: "1234567890",
    started_at: "2026-01-02T03:04:05.678Z",
  },
  "a random seed": { random_seed: 42, seed: "baseline", rng: { seed: 123_456_789 } },
  words: { secret: "sauce", token: "bearer", cookie: "session", creds: "missing", pass: "everything" },
  "an annual report": {
    text: "Revenue rose 12.5% to $3,200,000; see https://example.com/r?id=12345&lang=en#s2",
  },
  "CSS and colours": { css: ".token.keyword { color: #7f0055; } .secret::after { content: '\\2022'; }" },
  "a minified script": {
    js: '!function(e,t){"use strict";var n=t.token,r=t.secret;e.exports={key:n,pass:r}}(module,self);',
  },
  "an SVG path": { svg: "M12.1 2C6.5 2 2 6.5 2 12.1s4.5 10 10.1 10c5.5 0 10-4.5 10-10S17.6 2 12.1 2z" },
  "names of tests": { tests: ["token.test.ts", "rejects a wrong password", "GET /secrets/{id} answers 404"] },
  "a message of a reviewer": {
    message: "Please rename `accessKey` to `apiKey`, and drop the `password` argument.",
  },
  "a migration": { text: "20260102_add_token_to_users.sql applied in 35ms; 0 secrets rotated" },
  "a comment of a linter": {
    code: "// secretlint-disable\nconst total = 3;\n// eslint-disable-next-line no-secrets",
  },
  "file names with hashes": {
    files: [`dist/app.${sha("p").slice(0, 8)}.js`, `chunk-${sha("q").slice(0, 20)}.css`],
  },
  "a Merkle proof": {
    proof: [sha("r"), sha("s"), sha("t")],
    root: Buffer.from(sha("u"), "hex").toString("base64"),
  },
  "public keys of NATS": {
    account: `A${"ABCDEFGH234567".repeat(4).slice(0, 55)}`,
    user: `U${"ZYXWVUTS765432".repeat(4).slice(0, 55)}`,
  },
  "code with tokens": {
    code: [
      "token = tokens[i + 1]",
      "if (token === TokenKind.Identifier) {",
      "const token = readToken(lexer, position);",
      "password: HashedPassword",
      "password: z.string().min(8)",
      "password=hash_password(raw)",
      "apiKey: config.apiKey!",
      "access_key: createdAt",
      "secret = Secret(name='db')",
      "this.token=tokenService.sign({ id })",
      "secret: db-credentials",
      "pwd: src/components",
      "token: src/lexer/token.ts:120",
    ],
  },
  "prose on tokens": {
    text: "Unexpected token: RightBrace at line 3; budget token: 128000; AWS account id: 123456789012",
    args: ["--password", "required", "--token-count", "1a2b3c4d5e6f", "docker run -u 1000:100000 app"],
    page: "?pageToken=ABCDEF123 next-token: CAUQAA7x9",
  },
  "an address with a port and an at sign": {
    text: "http://example.com:8080?x=@foo https://localhost:4284/a@b https://some-long-name-of-a-user@example.com",
  },
  "words with hyphens": {
    css: "sk-this-is-a-css-class-name-of-spinkit sk-learn-pipeline-components-v2-final",
  },
  features: { reset_password: "completed", forgot_password: "in_progress", login: "completed" },
  "names that are paths": { files: { "src/auth/password": "modified", "lib/token": sha("v").slice(0, 32) } },
  "names of tasks": {
    "change the password": "done-2026",
    name: "Implement reset password",
    value: "in_progress",
  },
  "keys of stores": {
    storage_key: "uploads/2024/file.png",
    service_key: "billing-service",
    session_key: "agent:main:telegram",
    stripe_key: "idempotent",
  },
  "results and places": { pass: "1024/1030", token: "src/lexer/token.ts:120" },
  "objects with the names of secrets": {
    credentials: {
      user: "svc-app-01",
      host: "db1.internal.example",
      created: "2026-01-02T03:04:05Z",
      id: UUID,
    },
    password: { type: "string", pattern: "^[A-Z0-9]{8}$", strength: "at least 2 digits" },
    token: { kind: "Identifier", text: "lexer1", range: ["12", "17"] },
  },
};
