// Generated plain JSON data that the gate must accept, with names on which canonicalisers fail.

import fc from "fast-check";

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.constantFrom(
    "",
    "\u20ac",
    "\r",
    "\u{1f602}",
    "\ufb33",
    "</script>",
    '"',
    "\\",
    '\\"',
    "a:b",
    "{}",
    "[,]",
    "\u0000",
  ),
);

const anyName = fc.oneof(
  text,
  fc.constantFrom(
    "0",
    "1",
    "10",
    "9",
    "007",
    "-1",
    "4294967295",
    "constructor",
    "toString",
    "toJSON",
    "hasOwnProperty",
    "length",
  ),
);

/** fast-check generates this name, which the gate refuses at any depth. */
export const isPlainName = (name: string): boolean => name !== "__proto__";

const name = anyName.filter(isPlainName);

const number = fc.oneof(
  fc.maxSafeInteger(),
  fc
    .double({ noNaN: true, noDefaultInfinity: true })
    .filter((n) => !Number.isInteger(n) || Number.isSafeInteger(n)),
);

/** All values that pass the gate, with objects like those of JSON.parse. */
export const jsonValue: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  value: fc.oneof({ maxDepth: 5, depthIdentifier: "json" }, tie("leaf"), tie("array"), tie("object")),
  leaf: fc.oneof(
    fc.constant(null),
    fc.boolean(),
    text,
    number.filter((n) => !Object.is(n, -0)),
  ),
  array: fc.array(tie("value"), { maxLength: 6, depthIdentifier: "json" }),
  object: fc.dictionary(name, tie("value"), { maxKeys: 6, noNullPrototype: true, depthIdentifier: "json" }),
})).value;

/** `depth` objects or arrays around a number. */
export function nested(depth: number, around: (inner: unknown) => unknown = (inner) => [inner]): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i += 1) value = around(value);
  return value;
}
