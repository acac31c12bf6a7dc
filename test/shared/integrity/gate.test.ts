// The gate refuses every value that a canonicaliser would lose, change or fail on, and reports its path.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gate } from "../../../shared/integrity/gate.ts";
import type { FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { jsonValue, nested } from "./values.ts";

function refusal(value: unknown, root?: string): FleetError {
  try {
    gate(value, root);
  } catch (error) {
    return error as FleetError;
  }
  throw new Error("the gate accepted it");
}

class Point {
  readonly x = 1;
}

const cycle: Record<string, unknown> = {};
cycle.self = { around: [cycle] };

const traps: [label: string, value: unknown, path: string, expected: string, got: string][] = [
  ["an undefined member", { a: { b: undefined } }, "a.b", "a JSON value", "undefined"],
  ["undefined itself", undefined, "", "a JSON value", "undefined"],
  ["undefined in an array", { a: [undefined] }, "a.0", "a JSON value", "undefined"],
  // biome-ignore lint/suspicious/noSparseArray: the hole is the case.
  ["a sparse array", { a: [1, , 3] }, "a.1", "a JSON value", "undefined"],
  ["a function", { f: () => 1 }, "f", "a JSON value", "function"],
  ["a toJSON method", { a: { toJSON: () => 1 } }, "a.toJSON", "a JSON value", "function"],
  ["a symbol", [Symbol("s")], "0", "a JSON value", "symbol"],
  ["a symbol key", { a: { [Symbol("s")]: 1 } }, "a", "string keys", "a symbol key"],
  ["a BigInt", { n: 1n }, "n", "a JSON value", "bigint"],
  ["a Map", { m: new Map([["a", 1]]) }, "m", "a plain object", "Map"],
  ["a Set", { s: new Set([1]) }, "s", "a plain object", "Set"],
  ["an Error", { e: new Error("x") }, "e", "a plain object", "Error"],
  ["a RegExp", { r: /x/ }, "r", "a plain object", "RegExp"],
  ["a Date", { at: new Date(0) }, "at", "a plain object", "Date"],
  ["bytes", { b: new Uint8Array(2) }, "b", "a plain object", "Uint8Array"],
  ["a boxed string", { s: Object("x") }, "s", "a plain object", "String"],
  ["an instance of a class", { p: new Point() }, "p", "a plain object", "Point"],
  ["an object that inherits", { o: Object.create({ a: 1 }) }, "o", "a plain object", "Object"],
  ["NaN", { n: Number.NaN }, "n", "a finite number", "NaN"],
  ["Infinity", { n: Number.POSITIVE_INFINITY }, "n", "a finite number", "Infinity"],
  ["-Infinity", [Number.NEGATIVE_INFINITY], "0", "a finite number", "-Infinity"],
  ["negative zero", { n: -0 }, "n", "0", "-0"],
  [
    "2^53",
    { n: 2 ** 53 },
    "n",
    "an integer within ±(2^53 - 1); send larger ones as strings",
    "a larger integer",
  ],
  [
    "-(2^53)",
    { n: -(2 ** 53) },
    "n",
    "an integer within ±(2^53 - 1); send larger ones as strings",
    "a larger integer",
  ],
  ["1e300", [1e300], "0", "an integer within ±(2^53 - 1); send larger ones as strings", "a larger integer"],
  ["a lone high surrogate", { s: "a\ud83d" }, "s", "well-formed Unicode", "a lone surrogate"],
  ["a lone low surrogate", ["\ude02a"], "0", "well-formed Unicode", "a lone surrogate"],
  ["swapped surrogates", ["\ude02\ud83d"], "0", "well-formed Unicode", "a lone surrogate"],
  ["an own __proto__", JSON.parse('{"a":{"__proto__":{"b":1}}}'), "a.__proto__", "another key", "__proto__"],
];

describe("refused", () => {
  test.each(traps)("%s", (_, value, path, expected, got) => {
    const error = refusal(value);
    expect(error).toMatchObject({ name: "FleetError", code: "INVALID", fields: [{ path, expected, got }] });
  });

  test("a lone surrogate in a key", () => {
    const error = refusal({ a: { "\ud83d": 1 } });
    expect(error.code).toBe("INVALID");
    expect(error.fields[0]).toMatchObject({ path: "a.\ud83d", expected: "well-formed Unicode" });
  });

  test("a cycle, as too deep", () => {
    const error = refusal(cycle);
    expect(error.code).toBe("INVALID");
    expect(error.fields[0]?.expected).toBe("at most 64 levels of nesting");
    expect(error.fields[0]?.path).toMatch(/^self\.around\.0\.self/);
  });

  test("100,000 levels, without exhausting the stack", () => {
    expect(refusal(nested(100_000)).fields[0]?.got).toBe("65 levels");
  });

  test("the root stands in front of the path", () => {
    expect(refusal({ a: [Number.NaN] }, "checkpoint").fields[0]?.path).toBe("checkpoint.a.0");
    expect(refusal(Number.NaN, "checkpoint").fields[0]?.path).toBe("checkpoint");
  });
});

describe("accepted", () => {
  test.each([
    ["the largest safe integer", Number.MAX_SAFE_INTEGER],
    ["the smallest safe integer", Number.MIN_SAFE_INTEGER],
    ["the smallest double", 5e-324],
    ["a pair of surrogates", "\u{1f602}"],
    ["an object without prototype", Object.assign(Object.create(null), { a: 1 })],
    ["names that objects inherit", JSON.parse('{"constructor":1,"toString":2,"hasOwnProperty":3}')],
  ])("%s", (_, value) => expect(() => gate({ value })).not.toThrow());

  test.each([
    ["arrays", (inner: unknown) => [inner]],
    ["objects", (inner: unknown) => ({ inner })],
  ])("%s nested 64 deep, and not 65", (_, around) => {
    expect(() => gate(nested(LIMITS.depth_max, around))).not.toThrow();
    expect(refusal(nested(LIMITS.depth_max + 1, around)).fields[0]?.got).toBe("65 levels");
  });

  test("all plain JSON data, with the number of its members", () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        let members = 0;
        JSON.stringify(value, (_key, inner) => {
          if (inner !== null && typeof inner === "object" && !Array.isArray(inner)) {
            members += Object.keys(inner).length;
          }
          return inner;
        });
        expect(gate(value)).toBe(members);
      }),
    );
  });
});
