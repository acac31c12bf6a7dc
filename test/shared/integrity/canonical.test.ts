// Canonical bytes against the examples of RFC 8785 and against the reference library.

import canonicalize from "canonicalize";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { canonicalBytes, canonicalText, sha256Hex } from "../../../shared/integrity/canonical.ts";
import { parseJsonText } from "../../../shared/protocol/json.ts";
import { isPlainName, jsonValue } from "./values.ts";

/** RFC 8785 appendix B: the bits of an IEEE 754 double and its text. */
const numbers: [bits: string, text: string][] = [
  ["0000000000000000", "0"],
  ["8000000000000000", "0"],
  ["0000000000000001", "5e-324"],
  ["8000000000000001", "-5e-324"],
  ["7fefffffffffffff", "1.7976931348623157e+308"],
  ["ffefffffffffffff", "-1.7976931348623157e+308"],
  ["4340000000000000", "9007199254740992"],
  ["c340000000000000", "-9007199254740992"],
  ["4430000000000000", "295147905179352830000"],
  ["44b52d02c7e14af5", "9.999999999999997e+22"],
  ["44b52d02c7e14af6", "1e+23"],
  ["44b52d02c7e14af7", "1.0000000000000001e+23"],
  ["444b1ae4d6e2ef4e", "999999999999999700000"],
  ["444b1ae4d6e2ef4f", "999999999999999900000"],
  ["444b1ae4d6e2ef50", "1e+21"],
  ["3eb0c6f7a0b5ed8c", "9.999999999999997e-7"],
  ["3eb0c6f7a0b5ed8d", "0.000001"],
  ["41b3de4355555553", "333333333.3333332"],
  ["41b3de4355555554", "333333333.33333325"],
  ["41b3de4355555555", "333333333.3333333"],
  ["41b3de4355555556", "333333333.3333334"],
  ["41b3de4355555557", "333333333.33333343"],
  ["becbf647612f3696", "-0.0000033333333333333333"],
  ["43143ff3c1cb0959", "1424953923781206.2"],
];

test.each(numbers)("the double %s is written as %s", (bits, text) => {
  expect(canonicalText(Buffer.from(bits, "hex").readDoubleBE())).toBe(text);
});

test.each([["7fffffffffffffff"], ["7ff0000000000000"], ["fff0000000000000"]])(
  "the double %s has no canonical form",
  (bits) => {
    const value = Buffer.from(bits, "hex").readDoubleBE();
    expect(() => canonicalBytes({ value })).toThrow(expect.objectContaining({ code: "INVALID" }));
  },
);

describe("RFC 8785 §3.2", () => {
  const example = String.raw`{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  }`;
  const bytes = `7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72 75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62
    65 72 73 22 3a 5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31 65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30
    32 2c 31 65 2d 32 37 5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30 30 66 5c 6e 41 27 42 5c 22 5c 5c
    5c 5c 5c 22 2f 22 7d`;

  test("the sample object gives the bytes of §3.2.4", () => {
    // 1E30 is beyond the gate's safe integers, so the text is taken without it.
    const text = canonicalText(JSON.parse(example));
    expect(Buffer.from(text).toString("hex")).toBe(bytes.replace(/\s+/g, ""));
  });

  test("members are sorted by UTF-16 code units, as in §3.2.3", () => {
    const value = JSON.parse(
      String.raw`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",
        "\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
    );
    const order = [...canonicalText(value).matchAll(/:"([^"]*)"/g)].map(([, text]) => text);
    expect(order).toEqual([
      "Carriage Return",
      "One",
      "Control",
      "Latin Small Letter O With Diaeresis",
      "Euro Sign",
      "Emoji: Grinning Face",
      "Hebrew Letter Dalet With Dagesh",
    ]);
  });

  test("and so are the names of the RFC's test data", () => {
    const names = ["\u20ac", "\r", "\n", "1", "\u0080", "\u{1f602}", "\u00f6", "\ufb33", "</script>"];
    const text = canonicalText(Object.fromEntries(names.map((name) => [name, 0])));
    expect(text).toBe('{"\\n":0,"\\r":0,"1":0,"</script>":0,"\u0080":0,"ö":0,"€":0,"😂":0,"\ufb33":0}');
  });
});

const known: [label: string, value: unknown, text: string][] = [
  ["empty object", {}, "{}"],
  [
    "integer-like names sort as text",
    { 10: 1, 9: 2, a: { 2: 0, 1: 0, 11: 0 } },
    '{"10":1,"9":2,"a":{"1":0,"11":0,"2":0}}',
  ],
  ["integer-like names inside arrays", [{ 10: 1, 9: 2 }], '[{"10":1,"9":2}]'],
  [
    "control characters are escaped in short where JSON can",
    "\b\t\n\f\r\u0001\u007f",
    '"\\b\\t\\n\\f\\r\\u0001\u007f"',
  ],
  ["names sort before values are seen", { b: { d: 1, c: 2 }, a: [] }, '{"a":[],"b":{"c":2,"d":1}}'],
];
test.each(known)("%s", (_, value, text) => expect(canonicalText(value)).toBe(text));

test("any gated value gives the text of the reference library", () => {
  fc.assert(
    fc.property(jsonValue, (value) => {
      expect(canonicalText(value)).toBe(canonicalize(value));
    }),
  );
});

test("parsing canonical bytes gives the value back, and canonical bytes again", () => {
  fc.assert(
    fc.property(jsonValue, (value) => {
      const bytes = canonicalBytes(value);
      const parsed = parseJsonText(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
      expect(parsed).toEqual(value);
      expect(canonicalBytes(parsed)).toEqual(bytes);
    }),
  );
});

test("the order of members does not change the bytes", () => {
  fc.assert(
    fc.property(
      fc.dictionary(fc.string().filter(isPlainName), fc.integer(), { noNullPrototype: true }),
      (value) => {
        const reversed = Object.fromEntries(Object.entries(value).reverse());
        expect(canonicalText(reversed)).toBe(canonicalText(value));
      },
    ),
  );
});

test("SHA-256 is the standard's", () => {
  expect(sha256Hex("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
});
