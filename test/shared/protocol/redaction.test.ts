import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hasHidden } from "../../../shared/protocol/hidden-text.ts";
import { redact, redactedData } from "../../../shared/protocol/redaction.ts";
import { ADDRESS_CASES } from "../sdk/redaction/address-passwords.ts";
import { anySecret, SECRET_PART, SECRETS } from "./secrets.ts";

describe("removed", () => {
  test.each(Object.entries(SECRETS))("%s", (_, secret) => {
    for (const text of [secret, `see ${secret}, then proceed`, `(${secret})`, `a\n${secret}\nb`]) {
      const { text: clean, count } = redact(text);
      expect(clean).toMatch(/\[redacted: [a-zA-Z ]+\]/);
      expect(clean).not.toMatch(SECRET_PART);
      expect(count).toBe(1);
    }
  });

  test("the text around a secret stays, with its user name", () => {
    const url = SECRETS["URL with a password"]!;
    expect(redact(`before ${url} after`).text).toBe(
      "before postgres://app:[redacted: password]@db.internal:5432/app after",
    );
    expect(redact(`${SECRETS["password in a setting"]} next`).text).toBe(
      "DB_PASSWORD=[redacted: password] next",
    );
  });

  test.each(ADDRESS_CASES)(
    "a password in an address with $name, and nothing around",
    ({ value, passwords }) => {
      const { text } = redact(`(${value}) after`);
      // An address without a path may continue: there more may be removed.
      const kept = passwords.reduce(
        (rest, password) => rest.replace(password, "[redacted: password]"),
        value,
      );
      expect(text).toBe(`(${kept}) after`);
    },
  );

  test("all of several secrets, in any text", () => {
    const noise = fc
      .string({ unit: "grapheme-ascii", maxLength: 40 })
      .filter((text) => !text.includes("-----"));
    fc.assert(
      fc.property(
        fc.array(fc.tuple(noise, anySecret), { minLength: 1, maxLength: 6 }),
        noise,
        (parts, end) => {
          const text = `${parts.map(([before, secret]) => `${before}\n${secret}\n`).join("")}${end}`;
          const { text: clean, count } = redact(text);
          expect(clean).not.toMatch(SECRET_PART);
          expect(count).toBeGreaterThan(0);
          expect(redact(clean)).toMatchObject({ text: clean, count: 0 });
        },
      ),
    );
  });
});

describe("hidden characters", () => {
  /** Characters that no reader sees, a colour of terminals among them. */
  const HIDDEN = [
    ..."\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u202e\u2066\u2069\u034f\u061c\u180e\u3164\ufe0f\u0000\u0008\u007f",
    "\u{e0101}",
    "\u{e0041}",
    "\u{1bca0}",
    "\u001b[01;31m",
    "\u001b]8;;\u0007",
  ];
  const split = (text: string, hidden: string, every: number) =>
    [...text].map((char, at) => (at % every === 0 ? `${hidden}${char}` : char)).join("");

  test.each(Object.entries(SECRETS))("inside a secret: %s", (_, secret) => {
    for (const hidden of HIDDEN) {
      for (const every of [1, 3, 7]) {
        const { text, count } = redact(`before ${split(secret, hidden, every)}\nafter`);
        expect(text).toMatch(/^before [\s\S]*\[redacted: [a-zA-Z ]+\]/);
        expect(text.replace(/\P{ASCII}/gu, "")).not.toMatch(SECRET_PART);
        expect(text).toMatch(
          secret.includes("-----BEGIN") ? /\[redacted: private key\](?:\nafter)?$/ : /after$/,
        );
        expect(count).toBe(1);
      }
    }
  });

  test("between a word and a secret", () => {
    for (const hidden of HIDDEN) {
      const { text, count } = redact(`word${hidden}${SECRETS["AWS key id"]}${hidden}word`);
      expect(text).toBe(`word${hidden}[redacted: AWS key id]${hidden}word`);
      expect(count).toBe(1);
    }
  });

  test("outside the secrets stay", () => {
    const family = "\u{1f468}\u200d\u{1f469}\u200d\u{1f467}\ufe0f";
    const [first, second] = [SECRETS["AWS key id"], SECRETS["npm token"]].map((one) =>
      split(one!, "\u200b", 4),
    );
    expect(redact(`${family} ${first} ${family} ${second}, ${family}`)).toEqual({
      text: `${family} \u200b[redacted: AWS key id] ${family} \u200b[redacted: registry token], ${family}`,
      count: 2,
      shapes: ["AWS key id", "registry token"],
    });
  });

  test.each([
    "the team \u{1f469}\u200d\u{1f4bb} keeps \u2764\ufe0f the key, the token and the password",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 https://example.com \u200f(token)",
    "\u0915\u094d\u200d\u0937 secret \u0915\u094d\u200c\u0937",
    "\u001b[32mpassed\u001b[0m 12 tests of src/auth/token.ts",
    "password:\u001b[01;31m\u200b\u200b must be changed",
    "\ufeffkey\u00ad-\u00advalue store",
  ])("a text without a secret is the same: %j", (text) =>
    expect(redact(text)).toEqual({ text, count: 0, shapes: [] }),
  );

  test("any text without a secret is the same, byte by byte", () => {
    const word = fc.stringMatching(/^[a-z]{1,9}$/);
    const words = fc.array(fc.oneof(word, fc.constantFrom(...HIDDEN)), { maxLength: 40 });
    fc.assert(fc.property(words, (all) => redact(all.join(" ")).text === all.join(" ")));
    const free = fc.string({ unit: "binary" }).filter((text) => !/[:=]/.test(text));
    fc.assert(fc.property(free, (text) => redact(text).text === text));
  });
});

test("every character of a property that hides is found", () => {
  const HIDES = /[\p{Cf}\p{Default_Ignorable_Code_Point}]|(?!\s|\x85)\p{Cc}/u;
  const wrong: string[] = [];
  for (let code = 0; code <= 0x10ffff; code += 1) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    const char = String.fromCodePoint(code);
    if (hasHidden(`a${char}b`) !== HIDES.test(char)) wrong.push(code.toString(16));
  }
  expect(wrong).toEqual([]);
});

test("a text that is only shown loses words under the name of a secret, one that is stored keeps them", () => {
  const text = "secret: correct-horse";
  expect(redact(text).text).toBe("secret: [redacted: password]");
  expect(redact(text, "stored").text).toBe(text);
  expect(redact('secret: "correct-horse"', "stored").text).toBe('secret: "[redacted: password]"');
});

test("spaces of any kind before a password", () => {
  for (const space of ["\u00a0", "\u2003", "\u3000", "\t"]) {
    expect(redact(`password:${space}${"Qz7Vk9".repeat(2)}`).text).toBe(
      `password:${space}[redacted: password]`,
    );
  }
});

describe("data", () => {
  test("texts and names at any depth", () => {
    const secret = SECRETS["AWS key id"] as string;
    const data = { a: [{ b: secret, [secret]: 1 }], n: 1, none: null, at: new Date(0) };
    expect(redactedData(data)).toEqual({
      a: [{ b: "[redacted: AWS key id]", "[redacted: AWS key id]": 1 }],
      n: 1,
      none: null,
      at: new Date(0),
    });
  });

  test("objects with a form of their own, and one that contains itself", () => {
    const url = new URL(`https://app:${"Qz7Vk9".repeat(2)}@db.internal/`);
    const data: Record<string, unknown> = { url };
    data.self = [data];
    expect(redactedData(data)).toEqual({ url: "https://app:[redacted: password]@db.internal/", self: ["…"] });
  });

  test("long texts are cut after their secrets are removed", () => {
    const text = `${"x ".repeat(20)}${SECRETS["URL with a password"]}`;
    expect(redactedData({ text }, 60)).toEqual({
      text: `${"x ".repeat(20)}postgres://app:[reda…`,
    });
  });
});

describe("kept", () => {
  test.each([
    "commit 414c14dc0ffee0123456789abcdef0123456789a of main",
    "chk-019bef72-3d00-7a31-b5c4-0d6e2f9a1b01",
    `sha256 ${"0123456789abcdef".repeat(4)}`,
    "integrity sha512-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4==",
    "password: must be changed at the first login",
    "the token: expires after an hour",
    "secret = process.env.API_SECRET",
    "api_key: <from the vault>",
    "api_key=$API_KEY",
    "password: string; token: null",
    "used 140000 tokens of 200000, max_tokens: 4096",
    "https://example.com:8443/a/b?c=d#e and user@example.com",
    "src/auth/token.ts, src/secret-store/keys.ts",
    "sk-learn is a library, key-value is a store",
    "the bearer of bad news brought 17 items",
    "git@github.com:owner/name.git",
  ])("%s", (text) => expect(redact(text)).toEqual({ text, count: 0, shapes: [] }));

  test("text without a secret, byte by byte", () => {
    const words = fc.array(fc.stringMatching(/^[a-z]{1,9}$/), { maxLength: 40 }).map((all) => all.join(" "));
    fc.assert(fc.property(words, (text) => redact(text).text === text));
  });
});

test("takes linear time, even in text that nearly matches", () => {
  for (const part of [
    "-----BEGIN PRIVATE KEY-----\n",
    "password",
    "a://b:",
    "aa://b:c@d",
    "aa://b@c:d",
    "eyJaaaaaaaa.",
    "token = ",
    "bearer ",
    "sk-",
    "--user a",
    "cookie:a=",
    "https://a",
    "\u200bpassword=\u200b",
    "pass\u001b[31",
    "AK\u200bIAQZ7VK9QZ7VK9QZ7V ",
  ]) {
    const time = (length: number) => {
      const text = part.repeat(Math.ceil(length / part.length));
      redact(text);
      // The best of several, because other work of the machine and of the garbage collector only adds time. The texts
      // are so long that caches and the clock matter little.
      const rounds = Array.from({ length: 5 }, () => {
        const before = process.cpuUsage().user;
        redact(text);
        return process.cpuUsage().user - before;
      });
      return Math.min(...rounds);
    };
    // Eight times the text; quadratic time would be 64 times as long.
    expect(time(640_000)).toBeLessThan(32 * Math.max(2_000, time(80_000)));
  }
});
