// Bodies on the bus: JSON and MessagePack give the same values, and neither accepts a value that the other
// could not hold.

import fc from "fast-check";
import { Packr } from "msgpackr";
import { describe, expect, test } from "vitest";
import { decodeAnswer, decodeBody, encodeBody } from "../../../shared/integrity/wire.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { CONTENT_TYPES } from "../../../shared/protocol/subjects.ts";
import { jsonValue, nested } from "./values.ts";

const { json, msgpack } = CONTENT_TYPES;
const hex = (text: string): Uint8Array => Buffer.from(text.replaceAll(" ", ""), "hex");

function problem(bytes: Uint8Array, contentType: string | undefined): Record<string, unknown> {
  try {
    decodeBody(bytes, contentType);
  } catch (error) {
    const { name, code, fields } = error as { name: string; code: string; fields: object[] };
    return { name, code, ...fields[0] };
  }
  throw new Error("it was accepted");
}

test.each([[json], [msgpack]])("a value sent as %s arrives unchanged", (contentType) => {
  fc.assert(
    fc.property(jsonValue, (value) => {
      expect(decodeBody(encodeBody(value, contentType), contentType)).toEqual(value);
    }),
  );
});

test("MessagePack of other writers is read, with any width of numbers", () => {
  const numbers: [string, number][] = [
    ["07", 7],
    ["ff", -1],
    ["cc 07", 7],
    ["cd 0007", 7],
    ["ce 00000007", 7],
    ["cf 0000000000000007", 7],
    ["cf 001fffffffffffff", Number.MAX_SAFE_INTEGER],
    ["d0 f9", -7],
    ["d1 fff9", -7],
    ["d2 fffffff9", -7],
    ["d3 fffffffffffffff9", -7],
    ["d3 ffe0000000000001", Number.MIN_SAFE_INTEGER],
    ["ca 3f000000", 0.5],
    ["cb 3fe0000000000000", 0.5],
  ];
  for (const [bytes, value] of numbers) expect(decodeBody(hex(bytes), msgpack)).toBe(value);
});

test.each([
  ["strings of every length form", "94 a161 d90161 da000161 db0000000161", ["a", "a", "a", "a"]],
  ["arrays of every length form", "93 91c0 dc0001c2 dd00000001c3", [[null], [false], [true]]],
  ["maps of every length form", "93 81a16101 de0001a16102 df00000001a16103", [{ a: 1 }, { a: 2 }, { a: 3 }]],
])("%s", (_, bytes, value) => expect(decodeBody(hex(bytes), msgpack)).toEqual(value));

test("the library's MessagePack of any value is read", () => {
  const packr = new Packr({ useRecords: false, variableMapSize: false });
  fc.assert(
    fc.property(jsonValue, (value) => {
      // The library fails on a member of this name.
      fc.pre(!JSON.stringify(value).includes('"toJSON":'));
      expect(decodeBody(packr.pack(value), msgpack)).toEqual(value);
    }),
  );
});

const hostile: [label: string, bytes: string, field: object][] = [
  ["nothing", "", { expected: "a whole MessagePack value" }],
  ["a string that ends early", "a3 6162", { expected: "a whole MessagePack value", got: "too few bytes" }],
  ["an array that ends early", "92 01", { path: "1", expected: "a whole MessagePack value" }],
  ["a map that ends early", "82 a16101", { expected: "a whole MessagePack value" }],
  ["a map without its value", "81 a161", { path: "a", expected: "a whole MessagePack value" }],
  ["an array that claims four billion items", "dd ffffffff", { expected: "a whole MessagePack value" }],
  ["a map that claims four billion members", "df ffffffff", { expected: "a whole MessagePack value" }],
  ["a string that claims four gigabytes", "db ffffffff 61", { expected: "a whole MessagePack value" }],
  ["more after the value", "01 02", { expected: "the end after one value" }],
  ["the unused type byte", "c1", { expected: "a value that JSON has too", got: "the type byte 0xc1" }],
  ["binary", "81 a162 c4 01 00", { path: "b", expected: "a value that JSON has too" }],
  ["a time", "d6 ff 00000000", { expected: "a value that JSON has too" }],
  ["an empty extension", "c7 00 05", { expected: "a value that JSON has too" }],
  ["a reference, which could close a cycle", "d6 69 00000001 80", { expected: "a value that JSON has too" }],
  ["a typed array", "c7 05 74 00 00000001", { expected: "a value that JSON has too" }],
  ["a record definition", "d4 72 40 91 a161 01", { expected: "a value that JSON has too" }],
  ["a repeated key", "81 a178 82 a16101 a16102", { path: "x.a", expected: "each member name once" }],
  [
    "a repeated key in another length form",
    "82 a16101 d9016102",
    { path: "a", expected: "each member name once" },
  ],
  ["an integer key", "81 01 02", { expected: "strings as keys of a map" }],
  ["a nil key", "81 c0 01", { expected: "strings as keys of a map" }],
  ["an array as key", "81 91a161 01", { expected: "strings as keys of a map" }],
  ["a binary key", "81 c40161 02", { expected: "strings as keys of a map" }],
  ["__proto__", "81 a95f5f70726f746f5f5f 80", { expected: "another key", got: "__proto__" }],
  ["2^53", "cf 0020000000000000", { got: "a larger integer" }],
  ["the largest 64-bit integer", "cf ffffffffffffffff", { got: "a larger integer" }],
  ["the smallest 64-bit integer", "81 a16e d3 8000000000000000", { path: "n", got: "a larger integer" }],
  ["-0", "cb 8000000000000000", { got: "-0" }],
  ["NaN", "91 cb 7ff8000000000000", { path: "0", got: "NaN" }],
  ["Infinity in single precision", "ca 7f800000", { got: "Infinity" }],
  ["broken UTF-8", "a1 ff", { expected: "UTF-8 text" }],
  ["an encoded surrogate", "81 a161 a3 eda080", { path: "a", expected: "UTF-8 text" }],
  ["65 levels", `${"91".repeat(65)}01`, { got: "65 levels" }],
  ["100,000 levels", `${"91".repeat(100_000)}01`, { got: "65 levels" }],
];

describe("MessagePack refused", () => {
  test.each(hostile)("%s", (_, bytes, field) => {
    expect(problem(hex(bytes), msgpack)).toMatchObject({ name: "FleetError", code: "INVALID", ...field });
  });

  const packr = new Packr({ useRecords: false, variableMapSize: true });
  test.each([
    ["a Date", { at: new Date(0) }],
    ["a BigInt", { n: 2n ** 60n }],
    ["a Map with keys that are not strings", new Map([[1, "a"]])],
    ["an Error", { e: new Error("x") }],
    ["bytes", { b: new Uint8Array(4) }],
    ["undefined", { u: undefined }],
  ])("%s, as the library writes it", (_, value) => {
    expect(problem(packr.pack(value), msgpack)).toMatchObject({ code: "INVALID" });
  });

  test("a value on which the library fails is written and read", () => {
    const value = { constructor: null, toJSON: 1 };
    expect(() => packr.pack(value)).toThrow();
    expect(decodeBody(encodeBody(value, msgpack), msgpack)).toEqual(value);
  });

  test("64 levels are accepted", () => {
    expect(decodeBody(packr.pack(nested(64)), msgpack)).toEqual(nested(64));
  });

  test("any bytes are a value or INVALID", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
        try {
          decodeBody(bytes, msgpack);
        } catch (error) {
          expect(error).toMatchObject({ name: "FleetError", code: "INVALID" });
        }
      }),
      { numRuns: 2_000 },
    );
  });
});

test("members that are undefined are left out in both forms", () => {
  const value = { a: 1, b: undefined, c: { d: undefined } };
  for (const type of [json, msgpack]) {
    expect(decodeBody(encodeBody(value, type), type)).toStrictEqual({ a: 1, c: {} });
  }
});

test("large values are written completely", () => {
  const value = { texts: Array.from({ length: 1_000 }, (_, i) => "ü".repeat(i)), name: "x".repeat(70_000) };
  expect(decodeBody(encodeBody(value, msgpack), msgpack)).toEqual(value);
});

describe("content types", () => {
  test.each([[undefined], ["application/json"], ["application/json; charset=utf-8"], ["Application/JSON"]])(
    "%s is JSON",
    (contentType) => {
      expect(decodeBody(Buffer.from('{"a":1}'), contentType)).toEqual({ a: 1 });
      expect(Buffer.from(encodeBody({ a: 1 }, contentType)).toString()).toBe('{"a":1}');
    },
  );

  test.each([["text/plain"], ["application/jsonp"], ["application/octet-stream"], [""]])(
    "%s is refused",
    (contentType) => {
      expect(problem(Buffer.from("{}"), contentType)).toMatchObject({
        code: "INVALID",
        path: "content-type",
        expected: "application/json or application/msgpack",
      });
    },
  );

  test("JSON with the type of MessagePack is refused, and vice versa", () => {
    expect(problem(Buffer.from('{"a":1}'), msgpack)).toMatchObject({ code: "INVALID" });
    expect(problem(hex("81 a161 01"), json)).toMatchObject({ code: "INVALID" });
  });
});

test.each([[json], [msgpack]])("the size limit of %s bodies", (contentType) => {
  const body = (size: number): Uint8Array =>
    contentType === json
      ? Buffer.from(`"${"x".repeat(size - 2)}"`)
      : Buffer.concat([hex(`db ${(size - 5).toString(16).padStart(8, "0")}`), Buffer.alloc(size - 5, "x")]);
  expect(decodeBody(body(LIMITS.payload_bytes_max), contentType)).toMatch(/^x+$/);
  expect(problem(body(LIMITS.payload_bytes_max + 1), contentType)).toMatchObject({
    code: "TOO_LARGE",
    expected: "at most 2000000 bytes",
    got: "2000001 bytes",
  });
});

test("an answer may have more members than an input, and has a bound too", () => {
  const { node_count_max: input, reply_node_count_max: reply } = LIMITS;
  for (const contentType of [json, msgpack]) {
    const body = (items: number) => encodeBody(Array<number>(items).fill(0), contentType);
    expect(decodeBody(body(input), contentType)).toHaveLength(input);
    expect(() => decodeBody(body(input + 1), contentType)).toThrow(
      expect.objectContaining({ code: "INVALID" }),
    );
    expect(decodeAnswer(body(reply), contentType)).toHaveLength(reply);
    expect(() => decodeAnswer(body(reply + 1), contentType)).toThrow(
      expect.objectContaining({ code: "INVALID" }),
    );
  }
});
