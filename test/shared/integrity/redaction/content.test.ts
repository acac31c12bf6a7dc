import { describe, expect, test, vi } from "vitest";
import {
  redactContent,
  SEARCHED_CHARS_MAX,
  secretShapesIn,
} from "../../../../shared/integrity/redaction/content.ts";
import { KnownSecrets } from "../../../../shared/integrity/redaction/known-secrets.ts";
import { SECRETS } from "../../protocol/secrets.ts";

const SECRET = "Zq8/Wm4+Rt6=Xy2";
const known = new KnownSecrets([SECRET]);
const nothing = new KnownSecrets([]);
const UUID = "0190f3a2-7c1e-7b4d-9a55-3f0c6f1e2d3c";
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

test("the parts found by a library are removed from their own text, although a name that was a number is replaced", async () => {
  const key = `aws_secret_access_key = ${"Wj4lrX".repeat(7).slice(0, 40)}`;
  const content = JSON.parse(
    JSON.stringify({ "12345678": "plain text of no secret", "99999999": `x ${key}` }),
  );
  const { content: clean } = await redactContent(content, new KnownSecrets(["12345678"]));
  expect(clean["[redacted: known secret]"]).toBe("plain text of no secret");
  expect(clean["99999999"]).not.toMatch(/Wj4lrX/);
});

test("many names with the same replacement take linear time, and so does their refusal", async () => {
  const names = Array.from({ length: 50_000 }, (_, i) => [`pwd=a1b2c3x${i}`, 1]);
  const content = Object.fromEntries([...names, ["pwd=[redacted: password] 3", 2]]);
  const { content: clean, report } = await redactContent(content, nothing);
  expect(Object.keys(clean)).toHaveLength(50_001);
  expect(report).toHaveLength(50_000);
  const found = secretShapesIn(content);
  expect(found).toHaveLength(50_000);
  expect(found[0]).toEqual({ path: "", rule: "password" });
  expect(secretShapesIn({ [TOKEN]: { a: [TOKEN] } })[1]?.path).toBe("/[redacted: GitHub token]/a/0");
}, 60_000);

test("a path in the report is short, although its names are long", async () => {
  const content = { ["n".repeat(10_000)]: [TOKEN] };
  for (const [part] of [(await redactContent(content, nothing)).report, secretShapesIn(content)])
    expect(part?.path).toMatch(/^\/n{400,498}…$/);
});

describe("a text that mentions a private key", () => {
  const MARKER = ["-----BEGIN RSA PRIV", "ATE KEY"].join("");
  const LINE = "Qz7Vk9".repeat(11).slice(0, 64);
  test.each([
    [
      "in a member",
      { current_context: `Scan for ${MARKER} markers`, phase: "implementing", decisions: ["a"] },
    ],
    ["at the end of a member", { a: `grep -- ${MARKER}`, phase: "implementing", blockers: ["none", "done"] }],
    ["in a list", { a: [`Scan for ${MARKER} markers`, "implementing", LINE.toLowerCase()] }],
    ["before another list", { a: [`x ${MARKER}`], b: ["implementing", "done"] }],
  ])("changes nothing after it: %s", async (_, content) =>
    expect(await redactContent(content, nothing)).toEqual({ content, report: [] }),
  );

  test("as the first item of a list: only lines of a key are removed", async () => {
    const begin = `${MARKER}-----`;
    const end = begin.replace("BEGIN", "END");
    const gone = "[redacted: private key]";
    const cleaned = async (lines: string[]) =>
      (await redactContent({ lines }, nothing)).content.lines.slice(1);
    expect(await cleaned([begin, "implementing", LINE])).toEqual(["implementing", LINE]);
    expect(await cleaned([begin, "Proc-Type: 4,ENCRYPTED", "", LINE, LINE, "abcd=", end, "done"])).toEqual([
      "Proc-Type: 4,ENCRYPTED",
      "",
      gone,
      gone,
      gone,
      gone,
      "done",
    ]);
  });
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
    await expect(broken.redactContent({ text: "x y".repeat(9) }, nothing)).rejects.toMatchObject({
      code: "INTERNAL",
      message: "the content could not be searched for secrets; nothing was written",
      details: { failure: "Error" },
    });
    // Of these no rule could find anything: an agent must be able to release its task.
    for (const content of [{}, { fence: 3, expected_version: 4 }, { message_id: UUID }])
      expect(await broken.redactContent(content, nothing)).toEqual({ content, report: [] });
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
    "sk-",
    "--user a",
    "cookie:a=",
    SECRET.slice(0, -1),
    `${SECRET} `,
  ])("%j", async (part) => {
    const content = { text: part.repeat(Math.ceil(1_000_000 / part.length)) };
    await redactContent(content, known);
  });
});
