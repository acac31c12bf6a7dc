import { describe, expect, test, vi } from "vitest";
import { redactContent, SEARCHED_CHARS_MAX } from "../../../../shared/integrity/redaction/content.ts";
import { KnownSecrets } from "../../../../shared/integrity/redaction/known-secrets.ts";
import { SECRETS } from "../../protocol/secrets.ts";

const SECRET = "Zq8/Wm4+Rt6=Xy2";
const known = new KnownSecrets([SECRET]);
const nothing = new KnownSecrets([]);
const TOKEN = SECRETS["GitHub token"]!;

describe("the report", () => {
  test("names each place and rule, and no part of a value", async () => {
    const content = {
      a: [{ "b/c~d": `x ${SECRET} y` }],
      password: "Qz7Vk9Qz7Vk9",
      [TOKEN]: { goal: `${TOKEN} and ${TOKEN}` },
    };
    const { content: clean, report } = await redactContent(content, known);
    expect(report).toEqual([
      { path: "/a/0/b~1c~0d", rule: "known secret" },
      { path: "/password", rule: "member name" },
      { path: "", rule: "GitHub token" },
      { path: "/[redacted: GitHub token]/goal", rule: "GitHub token" },
      { path: "/[redacted: GitHub token]/goal", rule: "GitHub token" },
    ]);
    expect(clean).toEqual({
      a: [{ "b/c~d": "x [redacted: known secret] y" }],
      password: "[redacted: member name]",
      "[redacted: GitHub token]": { goal: "[redacted: GitHub token] and [redacted: GitHub token]" },
    });
    expect(content.password).toBe("Qz7Vk9Qz7Vk9");
  });

  test("is empty the second time", async () => {
    const { content } = await redactContent({ text: `_authToken=${TOKEN}x`, token: "Qz7Vk9Qz7Vk9" }, known);
    expect(await redactContent(content, known)).toEqual({ content, report: [] });
  });
});

test("two names with the same replacement stay two members", async () => {
  const other = `${TOKEN}Z`;
  const { content } = await redactContent({ [TOKEN]: 1, [other]: 2 }, nothing);
  expect(Object.values(content)).toEqual([1, 2]);
});

test("a comment that switches the rules off changes nothing, and stays", async () => {
  const key = `AWS_SECRET_ACCESS_KEY = "${"Qz7Vk9".repeat(7).slice(0, 40)}"`;
  const { content, report } = await redactContent({ text: `# secretlint-disable\n${key}` }, nothing);
  expect(report).toHaveLength(1);
  expect(content.text).toMatch(/^# secretlint-disable\n/);
});

test("the content is that of the call, although it changes while it is searched", async () => {
  const content = { goal: "the first goal" };
  const searched = redactContent(content, nothing);
  content.goal = TOKEN;
  expect((await searched).content).toEqual({ goal: "the first goal" });
});

test("the copy is what JSON has of the content", async () => {
  const content = { at: new Date(0), none: undefined, list: [null, 1, true], bytes: Buffer.from("a") };
  const { content: clean } = await redactContent(content, nothing);
  expect(clean).toEqual(JSON.parse(JSON.stringify(content)));
  const own = JSON.parse('{"__proto__": {"a": 1}}');
  expect(JSON.stringify((await redactContent(own, nothing)).content)).toBe(JSON.stringify(own));
});

describe("refused", () => {
  test("too large", async () => {
    const content = { text: "x".repeat(SEARCHED_CHARS_MAX + 1) };
    await expect(redactContent(content, nothing)).rejects.toMatchObject({ code: "TOO_LARGE" });
  });

  test("too deep, or a value that contains itself", async () => {
    const loop: Record<string, unknown> = {};
    loop.loop = loop;
    await expect(redactContent(loop, nothing)).rejects.toMatchObject({ code: "INVALID" });
  });

  test("rules that fail: nothing passes", async () => {
    vi.resetModules();
    vi.doMock("@secretlint/secretlint-rule-preset-recommend", () => ({ rules: [] }));
    const broken = await import("../../../../shared/integrity/redaction/content.ts");
    await expect(broken.redactContent({ text: "x" }, nothing)).rejects.toMatchObject({
      code: "INTERNAL",
      message: "the content could not be searched for secrets; nothing was written",
      details: { failure: "Error" },
    });
    vi.doUnmock("@secretlint/secretlint-rule-preset-recommend");
    vi.resetModules();
    const whole = await import("../../../../shared/integrity/redaction/content.ts");
    expect((await whole.redactContent({ text: TOKEN }, nothing)).report).toHaveLength(1);
  });
});

describe("a megabyte takes linear time", () => {
  test.each([
    "a",
    "token: ",
    "password=",
    "-----BEGIN PRIVATE KEY-----",
    "\u200b",
    "https://a:b",
    "_authToken=",
    "ops_eyJ",
    SECRET.slice(0, -1),
    `${SECRET} `,
  ])("%j", async (part) => {
    const content = { text: part.repeat(Math.ceil(1_000_000 / part.length)) };
    await redactContent(content, known);
  });
});
