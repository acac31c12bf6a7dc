import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { redact } from "../../../shared/integrity/redaction.ts";
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
          expect(redact(clean)).toEqual({ text: clean, count: 0 });
        },
      ),
    );
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
  ])("%s", (text) => expect(redact(text)).toEqual({ text, count: 0 }));

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
    "eyJaaaaaaaa.",
    "token = ",
    "bearer ",
    "sk-",
  ]) {
    const time = (length: number) => {
      const text = part.repeat(Math.ceil(length / part.length));
      redact(text);
      // The best of several, because other work of the machine and of the garbage collector only adds time.
      const rounds = Array.from({ length: 5 }, () => {
        const before = process.cpuUsage().user;
        redact(text);
        return process.cpuUsage().user - before;
      });
      return Math.min(...rounds);
    };
    // Eight times the text; quadratic time would be 64 times as long.
    expect(time(160_000)).toBeLessThan(24 * Math.max(200, time(20_000)));
  }
});
