/**
 * The strict gate in front of canonical bytes. RFC 8785 libraries silently lose or change values that JSON
 * cannot hold (`undefined` members, functions, Map, Date, unsafe integers, `-0`), so everything except plain
 * JSON is refused here first, with its path. This gate, not the canonicaliser, is the security boundary.
 */
import { type FieldProblem, FleetError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";

class Refusal extends Error {
  readonly path: string[] = [];
  readonly expected: string;
  readonly got: string;

  constructor(expected: string, got: string) {
    super(expected);
    this.expected = expected;
    this.got = got;
  }
}

const FORBIDDEN_KEYS = new Set(["__proto__"]);

function checkString(value: string): void {
  if (!value.isWellFormed()) throw new Refusal("well-formed Unicode", "a lone surrogate");
}

function checkNumber(value: number): void {
  if (!Number.isFinite(value)) throw new Refusal("a finite number", String(value));
  if (Object.is(value, -0)) throw new Refusal("0", "-0");
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) {
    throw new Refusal("an integer within ±(2^53 - 1); send larger ones as strings", "a larger integer");
  }
}

/** True when a parser made the value; parsers make no symbols. */
let isParsed = false;
/** The count of members and items in the current value. The gate is synchronous, so one counter is enough. */
let nodes = 0;
let nodesMax: number = LIMITS.node_count_max;

function count(more: number): void {
  nodes += more;
  if (nodes > nodesMax) {
    throw new Refusal(`at most ${nodesMax} members and items in all`, "more");
  }
}

/**
 * Checks the value and returns its number of object members, which the strict JSON parser compares with that
 * of the text.
 */
function walk(value: unknown, depth: number): number {
  switch (typeof value) {
    case "string":
      checkString(value);
      return 0;
    case "number":
      checkNumber(value);
      return 0;
    case "boolean":
      return 0;
    case "object":
      break;
    default:
      throw new Refusal("a JSON value", typeof value);
  }
  if (value === null) return 0;
  if (depth >= LIMITS.depth_max) {
    throw new Refusal(`at most ${LIMITS.depth_max} levels of nesting`, `${depth + 1} levels`);
  }
  return Array.isArray(value) ? walkArray(value, depth) : walkObject(value, depth);
}

function walkArray(array: readonly unknown[], depth: number): number {
  let members = 0;
  count(array.length);
  for (let i = 0; i < array.length; i += 1) {
    try {
      members += walk(array[i], depth + 1);
    } catch (error) {
      if (error instanceof Refusal) error.path.push(String(i));
      throw error;
    }
  }
  return members;
}

function walkObject(object: object, depth: number): number {
  const prototype = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new Refusal("a plain object", object.constructor?.name ?? "an object of a class");
  }
  let members = 0;
  // Plain objects inherit no names, so this visits exactly their own, without a list of them.
  for (const key in object) {
    try {
      count(1);
      checkString(key);
      if (FORBIDDEN_KEYS.has(key)) throw new Refusal("another key", key);
      members += 1 + walk((object as Record<string, unknown>)[key], depth + 1);
    } catch (error) {
      if (error instanceof Refusal) error.path.push(key);
      throw error;
    }
  }
  if (!isParsed && Object.getOwnPropertySymbols(object).length > 0)
    throw new Refusal("string keys", "a symbol key");
  return members;
}

/**
 * Refuses everything except plain JSON data: INVALID with the path. Returns the number of object members in
 * `value`.
 * @param root stands in front of the path in the error
 * @param parsed true for a value that comes from a parser
 * @param most the number of members and items that the value may have
 */
export function gate(
  value: unknown,
  root = "",
  parsed = false,
  most: number = LIMITS.node_count_max,
): number {
  nodes = 0;
  nodesMax = most;
  isParsed = parsed;
  try {
    return walk(value, 0);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const steps = root === "" ? error.path.reverse() : [root, ...error.path.reverse()];
    const field: FieldProblem = { path: steps.join("."), expected: error.expected, got: error.got };
    throw new FleetError("INVALID", "the input is not plain JSON data", { fields: [field] });
  }
}
