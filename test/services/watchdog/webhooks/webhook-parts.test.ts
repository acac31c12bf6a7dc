/** The parts of a webhook: settings, signature, line for operators, meaning of an answer. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { webhookBody } from "../../../../services/watchdog/webhooks/webhook-body.ts";
import { post } from "../../../../services/watchdog/webhooks/webhook-post.ts";
import { verdictOf } from "../../../../services/watchdog/webhooks/webhook-reply.ts";
import { readWebhooks } from "../../../../services/watchdog/webhooks/webhook-settings.ts";
import { signatureOf } from "../../../../services/watchdog/webhooks/webhook-signature.ts";
import { alertOf } from "../../../../shared/protocol/alerts.ts";
import { ConfigError } from "../../../../shared/runtime/settings/config.ts";

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

const folder = mkdtempSync(join(tmpdir(), "fleet-webhook-settings-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function file(content: unknown, name = "webhooks.json"): string {
  const path = join(folder, name);
  writeFileSync(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

function refusal(content: unknown): ConfigError {
  try {
    readWebhooks(file(content));
  } catch (error) {
    if (error instanceof ConfigError) return error;
    throw error;
  }
  throw new Error("the settings were accepted");
}

const problems = (content: unknown) =>
  Object.fromEntries(
    refusal(content).problems.map(({ name, expected }) => [name.replace("FLEET_WEBHOOKS: ", ""), expected]),
  );

describe("settings", () => {
  test("an address is enough; a name is made from its host and never from its path", () => {
    const [one, other] = readWebhooks(
      file([{ url: "https://hooks.slack.com/services/T0/B0/x?y=z" }, { url: "http://127.0.0.1:9/" }]),
    );
    expect(one).toEqual({
      name: expect.stringMatching(/^hooks-slack-com-[0-9a-f]{8}$/),
      url: "https://hooks.slack.com/services/T0/B0/x?y=z",
      secret: null,
      severities: null,
      tenants: null,
    });
    expect(other?.name).toMatch(/^127-0-0-1-[0-9a-f]{8}$/);
    expect(readWebhooks(undefined)).toEqual([]);
  });

  test("a secret may be in a file beside the settings", () => {
    file(`${SECRET}\n`, "secret");
    const hook = {
      name: "pager",
      url: "https://a.example/",
      secret_file: "secret",
      tenants: ["acme", "acme"],
    };
    expect(readWebhooks(file([hook]))).toMatchObject([{ name: "pager", secret: SECRET, tenants: ["acme"] }]);
  });

  test("all problems are reported at once", () => {
    const hook = { url: "https://a.example/" };
    expect(
      problems([
        { url: "ftp://a.example/" },
        { url: "https://me:word@a.example/" },
        { ...hook, secret: "whsec_c2hvcnQ=" },
        { ...hook, secret: SECRET, secret_file: "secret" },
        { ...hook, severities: ["mild"], tenants: ["a b"], color: "red" },
        { ...hook, name: "a/b" },
        {},
      ]),
    ).toEqual({
      "0.url": "an http or https URL without a user name",
      "1.url": "an http or https URL without a user name",
      "2.secret": expect.stringMatching(/^whsec_ and 24 to 64 bytes in base64/),
      "3.secret_file": "either secret or secret_file",
      "4.severities.0": "one of warning, critical",
      "4.tenants.0": "1 to 64 characters of A-Z a-z 0-9 _ -",
      "4.color": expect.stringMatching(/^no field of this name \(the fields here are .*severities/),
      "5.name": "1 to 64 characters of A-Z a-z 0-9 _ -",
      "6.url": "a string",
    });
  });

  test("missing and invalid secret files and duplicate names are reported together", () => {
    file("secret", "wrong");
    const url = "https://a.example/";
    expect(
      problems([
        { url, secret_file: "nowhere" },
        { url: `${url}b`, secret_file: "wrong" },
        { url, name: "pager" },
        { url, name: "pager" },
      ]),
    ).toEqual({
      "0.secret_file": "a file that can be read",
      "1.secret_file": expect.stringMatching(/^whsec_/),
      "3.name": expect.stringMatching(/^another name than that of 2/),
    });
  });

  test("no message repeats a secret", () => {
    file("whsec_tooshort", "wrong");
    const texts = [
      refusal([{ url: "https://a.example/", secret: "whsec_tooshort" }]).message,
      refusal([{ url: "https://me:tooshort@a.example/" }]).message,
      refusal([{ url: "https://a.example/", secret_file: "wrong" }]).message,
      refusal('[{"secret": "whsec_tooshort" "url"}]').message,
    ];
    for (const text of texts) expect(text).not.toContain("tooshort");
    expect(refusal("{").message).toContain("a JSON text");
    expect(refusal({}).message).toContain("FLEET_WEBHOOKS");
    expect(() => readWebhooks(join(folder, "nothing"))).toThrow(/a file that can be read; got .*ENOENT/);
  });
});

test("signatures match the specification", () => {
  const signed = {
    id: "msg_p5jXN8AQM9LWM0D4loKWxJek",
    timestamp: 1_614_265_330,
    body: '{"test": 2432232314}',
  };
  expect(signatureOf(SECRET, signed)).toBe("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
});

test("the receiver in the README accepts genuine posts only", async () => {
  const readme = readFileSync(new URL("../../../../services/watchdog/README.md", import.meta.url), "utf8");
  const shown = /```ts\n([\s\S]*?)```/.exec(readme)?.[1] as string;
  const module = join(folder, "receiver.mjs");
  writeFileSync(module, stripTypeScriptTypes(shown));
  const { isGenuine } = (await import(/* @vite-ignore */ module)) as {
    isGenuine(secret: string, headers: Record<string, string>, body: string): boolean;
  };
  const at = Math.floor(Date.now() / 1_000);
  const headersOf = (timestamp: number) => ({
    "webhook-id": "default/auth/17",
    "webhook-timestamp": String(timestamp),
    "webhook-signature": `v1,AAAA ${signatureOf(SECRET, { id: "default/auth/17", timestamp, body: "{}" })}`,
  });
  expect(isGenuine(SECRET, headersOf(at), "{}")).toBe(true);
  expect(isGenuine(SECRET, headersOf(at), "{ }")).toBe(false);
  expect(isGenuine(SECRET, headersOf(at - 600), "{}")).toBe(false);
  expect(isGenuine(SECRET, { ...headersOf(at), "webhook-id": "default/auth/18" }, "{}")).toBe(false);
  expect(isGenuine(SECRET.replace("M", "N"), headersOf(at), "{}")).toBe(false);
  expect(isGenuine(SECRET, {}, "{}")).toBe(false);
});

test("a chat does not interpret the text of an alert", () => {
  const reason = "x\u001b[2J\nnot <!channel> or <http://a.example|b>";
  const alert = alertOf("COMMAND_DEAD", "warning", {
    tenant: "default",
    task: "auth",
    occasion: "1",
    nowMs: 0,
    data: { stream: "FLEET_QUEUE", reason, commandId: null },
  });
  const { text, alert: posted } = JSON.parse(webhookBody(alert));
  expect(text).toMatch(
    /^\[warning\] A queued command of task auth could not be applied: x \[2J not ‹!channel›/,
  );
  expect([...text].filter((character) => "<>\n\u001b".includes(character))).toEqual([]);
  expect(posted).toEqual(alert);
  const long = { ...alert, data: { ...alert.data, reason: "y".repeat(5_000) } };
  const line = JSON.parse(webhookBody(long)).text as string;
  expect(line.length).toBeLessThanOrEqual(1_500);
  expect(line).toMatch(
    /Begin with: fleet queue dead list \(to acknowledge: fleet alerts ack default\/auth\/1\)$/,
  );
});

describe("answers", () => {
  const now = Date.UTC(2026, 0, 4, 12);
  test.each([
    [200, null, { done: true }],
    [204, null, { done: true }],
    [301, null, { done: false, again: false }],
    [400, "5", { done: false, again: false }],
    [410, null, { done: false, again: false }],
    [408, null, { done: false, again: true, afterMs: 0 }],
    [425, null, { done: false, again: true, afterMs: 0 }],
    [429, "120", { done: false, again: true, afterMs: 120_000 }],
    [429, "Sun, 04 Jan 2026 12:00:30 GMT", { done: false, again: true, afterMs: 30_000 }],
    [503, "Sun, 04 Jan 2026 11:00:00 GMT", { done: false, again: true, afterMs: 0 }],
    [503, "tomorrow", { done: false, again: true, afterMs: 0 }],
    [503, "999999", { done: false, again: true, afterMs: 3_600_000 }],
    [500, "-5", { done: false, again: true, afterMs: 0 }],
    [599, null, { done: false, again: true, afterMs: 0 }],
  ])("%d with Retry-After %s", (status, retryAfter, verdict) => {
    expect(verdictOf({ status, retryAfter }, now)).toEqual(verdict);
  });
});

test.each([
  ["switches protocols", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"],
  ["speaks another protocol", "220 mail.example ESMTP\r\n"],
  ["never sends a final answer", "HTTP/1.1 100 Continue\r\n\r\n"],
])("a receiver that %s delays no alert", async (_name, says) => {
  const receiver = createServer((socket) =>
    socket.on("error", () => {}).once("data", () => socket.write(says)),
  );
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
    const { signal } = new AbortController();
    const answer = await post({ url, headers: {}, body: "{}", timeoutMs: 1_000, signal });
    expect(answer).toMatchObject({ problem: expect.any(String) });
  } finally {
    receiver.close();
  }
});
