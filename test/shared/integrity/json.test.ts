// Strict JSON: a text that two readers could read differently is refused, with its path.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseJson } from "../../../shared/integrity/json.ts";
import { isPlainName, jsonValue } from "./values.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function problem(input: Uint8Array): unknown {
  try {
    parseJson(input);
  } catch (error) {
    return { code: (error as { code: string }).code, ...(error as { fields: object[] }).fields[0] };
  }
  throw new Error("it was accepted");
}

const duplicates: [text: string, path: string][] = [
  ['{"a":1,"a":2}', "a"],
  ['{"a":1,"a":1}', "a"],
  ['{ "a" : 1 , "b" : 2 , "a" : 3 }', "a"],
  ['{"a":{"b":{"c":1,"c":2}}}', "a.b.c"],
  ['{"a":[{"b":1},{"b":1,"b":2}]}', "a.1.b"],
  ['[[1,2],[3,{"x":1,"x":2}]]', "1.1.x"],
  ['{"a":{"x":1},"b":{"x":1},"c":{"x":1,"x":2}}', "c.x"],
  ['{"a":{"x":{"y":1}},"a":0}', "a"],
  [String.raw`{"a":1,"\u0061":2}`, "a"],
  [String.raw`{"\u20ac":1,"€":2}`, "€"],
  [String.raw`{"say \"hi\"":1,"say \"hi\"":2}`, 'say "hi"'],
  [String.raw`{"back\\slash":{"\\":1,"\\":2}}`, "back\\slash.\\"],
  [String.raw`{"a\\":1,"b":"\\","a\\":2}`, "a\\"],
  [String.raw`{"t":"{\"x\":1,\"x\":2}","u":"a:b,c","u":1}`, "u"],
  ['{"t":["}","]","{","["],"n":{"k":":","k":1}}', "n.k"],
  ['{"":{"":1,"":2}}', "."],
  ['{"10":1,"9":1,"10":2}', "10"],
  ['{"constructor":1,"constructor":2}', "constructor"],
];

describe("a repeated name", () => {
  test.each(duplicates)("%s is refused at %s", (text, path) => {
    expect(problem(bytes(text))).toEqual({
      code: "INVALID",
      path,
      expected: "each member name once",
      got: "a duplicate",
    });
  });

  test.each([
    ['{"a":1,"A":2}'],
    ['{"a":{"a":{"a":1}}}'],
    ['[{"a":1},{"a":1}]'],
    [String.raw`{"a:1,a:2":"\"a\":1,\"a\":2"}`],
    [String.raw`{"a\\":"\\\"","b\"":"\\"}`],
  ])("%s has none", (text) => expect(parseJson(bytes(text))).toEqual(JSON.parse(text)));

  test("is found at any place", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string().filter(isPlainName), jsonValue, { minKeys: 1, noNullPrototype: true }),
        jsonValue,
        (object, more) => {
          const [name] = Object.keys(object) as [string];
          const text = `{"list":[0,${JSON.stringify(object).slice(0, -1)},${JSON.stringify(name)}:${JSON.stringify(more)}}]}`;
          expect(problem(bytes(text))).toMatchObject({ code: "INVALID", path: `list.1.${name}` });
        },
      ),
    );
  });

  test("is named in linear time, at the end of a large body", () => {
    const many = Array.from({ length: 40_000 }, (_, i) => `"k${i}":"\\\\\\"${i}"`).join(",");
    expect(problem(bytes(`{${many},"k7":1}`))).toMatchObject({ path: "k7" });
  });
});

const hostile: [label: string, input: Uint8Array, field: object][] = [
  ["nothing", bytes(""), { expected: "a JSON text" }],
  ["blanks only", bytes(" \n"), { expected: "a JSON text" }],
  ["a byte order mark", Uint8Array.of(0xef, 0xbb, 0xbf, 0x7b, 0x7d), { expected: "a JSON text" }],
  ["trailing garbage", bytes("{} x"), { expected: "a JSON text" }],
  ["two values", bytes("{}{}"), { expected: "a JSON text" }],
  ["a trailing comma", bytes('{"a":1,}'), { expected: "a JSON text" }],
  ["single quotes", bytes("{'a':1}"), { expected: "a JSON text" }],
  ["a comment", bytes("{} // a"), { expected: "a JSON text" }],
  ["NaN", bytes("NaN"), { expected: "a JSON text" }],
  ["a raw line break in a string", bytes('"a\nb"'), { expected: "a JSON text" }],
  ["a NUL after the text", bytes("{}\u0000"), { expected: "a JSON text" }],
  ["a lone continuation byte", Uint8Array.of(0x22, 0x80, 0x22), { expected: "UTF-8 text" }],
  ["an overlong encoding", Uint8Array.of(0x22, 0xc0, 0xaf, 0x22), { expected: "UTF-8 text" }],
  ["an encoded surrogate", Uint8Array.of(0x22, 0xed, 0xa0, 0x80, 0x22), { expected: "UTF-8 text" }],
  ["UTF-16", Uint8Array.of(0xff, 0xfe, 0x7b, 0x00), { expected: "UTF-8 text" }],
  [
    "an escaped lone surrogate",
    bytes(String.raw`{"a":"\ud800"}`),
    { path: "a", expected: "well-formed Unicode" },
  ],
  [
    "an escaped lone surrogate in a name",
    bytes(String.raw`{"\ud800":1}`),
    { expected: "well-formed Unicode" },
  ],
  ["__proto__", bytes('{"__proto__":{"a":1}}'), { path: "__proto__", expected: "another key" }],
  [
    "__proto__ in escapes",
    bytes(String.raw`{"\u005f_proto__":{}}`),
    { path: "__proto__", expected: "another key" },
  ],
  ["negative zero", bytes('{"a":-0}'), { path: "a", expected: "0", got: "-0" }],
  ["negative zero as a fraction", bytes("[-0.0e3]"), { path: "0", expected: "0", got: "-0" }],
  ["a number that overflows", bytes("[1e400]"), { path: "0", expected: "a finite number" }],
  ["2^53 + 1", bytes('{"n":9007199254740993}'), { path: "n", got: "a larger integer" }],
  ["100,000 open brackets", bytes("[".repeat(100_000)), { expected: "a JSON text" }],
  ["100,000 nested arrays", bytes("[".repeat(100_000) + "]".repeat(100_000)), { got: "65 levels" }],
  [
    "100,000 nested objects",
    bytes(`${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`),
    { got: "65 levels" },
  ],
];

test.each(hostile)("%s is refused", (_, input, field) => {
  expect(problem(input)).toMatchObject({ code: "INVALID", ...field });
});

test("every output of JSON.stringify is parsed to the same value", () => {
  fc.assert(
    fc.property(jsonValue, fc.constantFrom(undefined, 2), (value, indent) => {
      expect(parseJson(bytes(JSON.stringify(value, null, indent)))).toEqual(value);
    }),
  );
});

test("every failure is INVALID, for any bytes", () => {
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array({ maxLength: 40 }), fc.string().map(bytes)), (input) => {
      try {
        parseJson(input);
      } catch (error) {
        expect(error).toMatchObject({ name: "FleetError", code: "INVALID" });
      }
    }),
  );
});
