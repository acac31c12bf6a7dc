// Merge patches: every case of RFC 7396 appendix A, and the effects that a patch must not have.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { mergePatch, namedFields, patchedFields } from "../../../shared/integrity/merge.ts";
import { jsonValue } from "./values.ts";

/** RFC 7396 appendix A: original, patch, result. */
const cases: [original: string, patch: string, result: string][] = [
  ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
  ['{"a":"b"}', '{"a":null}', "{}"],
  ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
  ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
  ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
  ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
  ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
  ['["a","b"]', '["c","d"]', '["c","d"]'],
  ['{"a":"b"}', '["c"]', '["c"]'],
  ['{"a":"foo"}', "null", "null"],
  ['{"a":"foo"}', '"bar"', '"bar"'],
  ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
  ["[1,2]", '{"a":"b","c":null}', '{"a":"b"}'],
  ["{}", '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
];

test.each(cases)("%s patched with %s is %s", (original, patch, result) => {
  expect(mergePatch(JSON.parse(original), JSON.parse(patch))).toEqual(JSON.parse(result));
});

test("neither argument is changed, and an empty patch changes nothing", () => {
  fc.assert(
    fc.property(jsonValue, jsonValue, (target, patch) => {
      const before = JSON.stringify([target, patch]);
      mergePatch(target, patch);
      expect(JSON.stringify([target, patch])).toBe(before);
      if (typeof target === "object" && target !== null && !Array.isArray(target)) {
        expect(mergePatch(target, {})).toEqual(target);
      }
    }),
  );
});

test("a repeated patch changes nothing", () => {
  fc.assert(
    fc.property(jsonValue, jsonValue, (target, patch) => {
      const once = mergePatch(target, patch);
      expect(mergePatch(once, patch)).toEqual(once);
    }),
  );
});

test("inherited names are ordinary members", () => {
  const result = mergePatch({}, { constructor: { a: 1 }, toString: { b: 2 } });
  expect(result).toEqual({ constructor: { a: 1 }, toString: { b: 2 } });
});

test("__proto__, which the gate refuses earlier, does not reach other objects", () => {
  mergePatch({}, JSON.parse('{"__proto__":{"polluted":1}}'));
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});

const patches: [patch: Record<string, unknown>, fields: string[]][] = [
  [{}, []],
  [{ a: 1 }, ["a"]],
  [{ a: null }, ["a"]],
  [{ a: {} }, ["a"]],
  [{ a: [] }, ["a"]],
  [{ a: { b: 1, c: { d: null } }, e: [{ f: 1 }] }, ["a.b", "a.c.d", "e"]],
];
test.each(patches)("%j changes %j", (patch, fields) => expect(patchedFields(patch)).toEqual(fields));

describe("fields named in events and audit entries", () => {
  const many = (section: string, count: number) =>
    Array.from({ length: count }, (_, i) => `${section}.m${i}`);

  test("are the members of the patch, up to a hundred", () => {
    expect(namedFields(["a.b", "c"])).toEqual(["a.b", "c"]);
    expect(namedFields(many("x", 100))).toEqual(many("x", 100));
  });

  test("are sections above a hundred", () => {
    expect(namedFields([...many("x", 60), ...many("y", 41)])).toEqual(["x", "y"]);
  });

  test("are cut when they are long, but never within a character", () => {
    expect(namedFields(["n".repeat(101)])).toEqual([`${"n".repeat(100)}…`]);
    const [cut] = namedFields([`${"n".repeat(99)}\u{1f602}`]) as [string];
    expect(cut).toBe(`${"n".repeat(99)}\ufffd…`);
    expect(cut.isWellFormed()).toBe(true);
  });

  test("are bounded in number and length", () => {
    const name = fc.string({ unit: "grapheme", maxLength: 150 });
    fc.assert(
      fc.property(fc.array(name, { maxLength: 300 }), (fields) => {
        const named = namedFields(fields);
        expect(named.length).toBeLessThanOrEqual(100);
        for (const one of named) expect(one.length).toBeLessThanOrEqual(101);
      }),
    );
  });
});
