// Member names with escapes are parsed correctly, independent of texts parsed before.

import fc from "fast-check";
import { expect, test } from "vitest";
import { parseJsonText } from "../../../shared/protocol/json.ts";

const part = fc.constantFrom(
  "\\",
  '"',
  "\n",
  "n",
  "\u0000",
  "u0000",
  ":",
  "{",
  "[",
  "}",
  ",",
  "é",
  "a",
  "__proto__",
);
const name = fc.array(part, { maxLength: 3 }).map((parts) => parts.join(""));
/** An object as a list of members, so that only the parser under test turns names into objects. */
interface Members {
  readonly members: readonly (readonly [name: string, value: Value])[];
}
type Value = null | boolean | number | string | readonly Value[] | Members;

const { value } = fc.letrec<{ value: Value }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.oneof(fc.constant(null), fc.boolean(), fc.integer(), name),
    fc.array(tie("value"), { maxLength: 3 }),
    fc
      .uniqueArray(fc.tuple(name, tie("value")), { maxLength: 4, selector: ([one]) => one })
      .map((members) => ({ members })),
  ),
}));

const isMembers = (of: Value): of is Members => typeof of === "object" && of !== null && "members" in of;

function textOf(of: Value, space: string): string {
  if (isMembers(of)) {
    const members = of.members.map(
      ([one, inner]) => `${JSON.stringify(one)}${space}:${space}${textOf(inner, space)}`,
    );
    return `{${space}${members.join(`${space},`)}${space}}`;
  }
  if (Array.isArray(of))
    return `[${space}${of.map((inner: Value) => textOf(inner, space)).join(",")}${space}]`;
  return JSON.stringify(of);
}

function membersOf(of: unknown): Value {
  if (Array.isArray(of)) return of.map(membersOf);
  if (typeof of !== "object" || of === null) return of as Value;
  return { members: Object.entries(of).map(([one, inner]) => [one, membersOf(inner)] as const) };
}

test("names and values survive a round trip, in their order", () => {
  fc.assert(
    fc.property(value, fc.constantFrom("", " ", "\r\n\t"), (given, space) => {
      expect(membersOf(parseJsonText(textOf(given, space)))).toEqual(given);
    }),
    { numRuns: 500 },
  );
});

test.each([
  [String.raw`{"x":[],"\\":1}`, String.raw`{"x":1,"\"":2}`],
  [String.raw`{"a\\":1}`, String.raw`{"a\n":2}`],
])("%s leaves no trace in %s", (before, after) => {
  parseJsonText(before);
  expect(JSON.stringify(parseJsonText(after))).toBe(after);
});

test("the engine's own parser still needs this one", () => {
  JSON.parse(String.raw`{"x":[],"\\":1}`);
  const parsed = JSON.parse(String.raw`{"x":1,"\"":2}`);
  expect(
    parsed,
    "nodejs/node#63785 is fixed: delete parseJsonText and use JSON.parse where every supported Node has the fix",
  ).toEqual({ x: 1, "\\": 2 });
});

test("the last of several members with one name counts, as in JSON.parse", () => {
  expect(parseJsonText(String.raw`{"\"":1,"a":[{}],"\"":[2]}`)).toEqual({ '"': [2], a: [{}] });
});

test.each(["", "{", '{"\\":1}', '{"a\\"":1,}', '{"a\\""1}', '["a\\"":1]', '{"a\\"",1}'])(
  "%s is no JSON",
  (text) => {
    expect(() => parseJsonText(text)).toThrow(SyntaxError);
  },
);

test("100,000 levels of nesting are parsed", () => {
  const text = `${String.raw`{"\"":`.repeat(100_000)}1${"}".repeat(100_000)}`;
  expect(parseJsonText(text)).toHaveProperty('"');
});

test("a string of many megabytes beside a name with an escape is parsed", () => {
  const text = "a".repeat(20_000_000);
  expect(parseJsonText(`{"\\"":"${text}"}`)).toEqual({ '"': text });
});
