import fc from "fast-check";
import { expect, test } from "vitest";
import { KnownSecrets } from "../../../../shared/integrity/redaction/known-secrets.ts";
import { formsOf } from "../../../../shared/integrity/redaction/secret-forms.ts";

const found = (secrets: string[], text: string) => new KnownSecrets(secrets).replaced(text, "#");

test("every form of every secret, in any text", () => {
  const secret = fc.string({ unit: "grapheme", minLength: 8, maxLength: 60 });
  // Other characters than those of the secrets' forms, so that nothing is found by accident.
  const noise = fc.stringMatching(/^[ \n]{0,20}$/);
  fc.assert(
    fc.property(fc.array(secret, { minLength: 1, maxLength: 5 }), noise, noise, (secrets, before, after) => {
      const known = new KnownSecrets(secrets);
      for (const form of secrets.flatMap((one) => [...formsOf(one)])) {
        const { text, count } = known.replaced(`${before}${form}${after}.`, "▮");
        expect(count).toBeGreaterThan(0);
        expect(text).not.toContain(form);
      }
    }),
  );
});

test("the longest of several, and those that overlap as one", () => {
  expect(found(["secret-one", "secret-one-and-two"], "a secret-one-and-two b").text).toBe("a # b");
  expect(found(["abcdefgh", "efghijkl"], "x abcdefghijkl y")).toEqual({ text: "x # y", count: 1 });
  expect(found(["abcdefgh"], "abcdefgh abcdefgh")).toEqual({ text: "# #", count: 2 });
  expect(found(["aXcdefgh", "cdefghij"], "aXcdefghij").text).toBe("#");
});

test("nothing else", () => {
  const long = "0123456789abcdefghijklmnopqrstuvwxyz-ABCDEF";
  for (const text of ["short", "secret-on", `${long.slice(0, 40)} ends otherwise`, "SECRET-ONE"])
    expect(found(["short", "secret-one", long], text)).toEqual({ text, count: 0 });
});

test("a secret that the end of the text cuts off", () => {
  const long = "0123456789abcdefghijklmnopqrstuvwxyz-ABCDEF";
  expect(found([long], `cut: ${long.slice(0, 35)}`).text).toBe("cut: #");
});

test("a long secret is found as a whole, and one that repeats itself takes bounded time", () => {
  const long = Array.from({ length: 4_000 }, (_, i) => `${i}-`).join("");
  expect(found([long], `a ${long} b`)).toEqual({ text: "a # b", count: 1 });
  const periodic = "abcde".repeat(4_000);
  expect(found([periodic], `x ${"abcde".repeat(200_000)} y`)).toEqual({ text: "x # y", count: 1 });
  expect(found([`${periodic}!`], `x ${"abcde".repeat(200_000)} y`).count).toBe(1);
}, 30_000);

test.each(["\n", "\r\n", "\\n"])("a secret in the lines of an encoded file, which end with %j", (end) => {
  const secret = "postgres-Jk5Lm8Np3-and-a-long-passphrase-of-the-fleet-0042-behind-it";
  const file = Buffer.from(`host=db\npassword=${secret}\nuser=app\n`);
  for (const encoded of [file.toString("base64"), file.toString("hex")]) {
    const lines = encoded.match(/.{1,76}/g)!;
    const { text, count } = found([secret], `> cat config${end}${lines.join(end)}${end}`);
    expect(count).toBe(1);
    const rest = text.replaceAll(end, "").replace("> cat config", "").split("#");
    expect(rest.length).toBe(2);
    expect(encoded.startsWith(rest[0]!) && encoded.endsWith(rest[1]!)).toBe(true);
    expect(rest.join("").length).toBeLessThan(encoded.length - secret.length);
  }
});

test("lines of words and lists are no folded text", () => {
  const text = "first-half\nsecond-half";
  expect(found(["first-halfsecond-half"], text)).toEqual({ text, count: 0 });
});
