/**
 * Turns the issues of a schema into field problems: all at once, each with its path and the expected value.
 */
import type { z } from "zod";
import { type FieldProblem, FleetError, shown } from "./errors.ts";

const PROBLEMS_SHOWN = 20;

/** For layers that take a schema and do not build one. */
export type Schema = z.ZodType;
export type OutputOf<S extends Schema> = z.output<S>;

/** What is expected in the place of an unknown name. */
export const NO_FIELD = "no field of this name";

type Issue = z.core.$ZodIssue;

/** The library's type names in words. */
const TYPES: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "an integer",
  boolean: "true or false",
  object: "an object",
  record: "an object",
  array: "an array",
};

const UNITS: Readonly<Record<string, string>> = { string: "character", array: "item" };

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const step of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[step];
  }
  return value;
}

/**
 * The single issues in one. The library reports all unknown names as one issue. It also reports a union as a
 * whole; the alternative that the value was meant for knows which member is wrong.
 */
function leaves(issue: Issue): Issue[] {
  if (issue.code === "unrecognized_keys")
    return issue.keys.map((key) => ({ ...issue, path: [...issue.path, key] }));
  if (issue.code !== "invalid_union") return [issue];
  const meant = issue.errors.find(
    (branch) =>
      branch.length > 0 && !branch.some(({ code, path }) => code === "invalid_type" && path.length === 0),
  );
  if (meant === undefined) return [issue];
  return meant.map((inner) => ({ ...inner, path: [...issue.path, ...inner.path] })).flatMap(leaves);
}

function counted(amount: number | bigint, origin: string): string {
  const unit = UNITS[origin];
  if (unit === undefined) return String(amount);
  return `${amount} ${unit}${Number(amount) === 1 ? "" : "s"}`;
}

/**
 * The expected value. Messages of our schemas name it; the library's defaults are sentences about both sides,
 * so ours replace them.
 */
function expectation(issue: Issue): string {
  switch (issue.code) {
    case "invalid_type":
      return issue.message.startsWith("Invalid input")
        ? (TYPES[issue.expected] ?? issue.expected)
        : issue.message;
    case "invalid_value":
      return issue.message.startsWith("Invalid ") ? `one of ${issue.values.join(", ")}` : issue.message;
    case "too_small":
      return issue.message.startsWith("Too small")
        ? `at least ${counted(issue.minimum, issue.origin)}`
        : issue.message;
    case "too_big":
      return issue.message.startsWith("Too big")
        ? `at most ${counted(issue.maximum, issue.origin)}`
        : issue.message;
    case "unrecognized_keys":
      return NO_FIELD;
    case "invalid_key":
      return `a name of ${issue.issues.map(expectation).join(", ")}`;
    default:
      return issue.message;
  }
}

function problem(issue: Issue, input: unknown): FieldProblem {
  const path = issue.path.map(String).join(".");
  const value = issue.code === "invalid_key" ? issue.path.at(-1) : valueAt(input, issue.path);
  return { path, expected: expectation(issue), got: value === undefined ? "nothing" : shown(value) };
}

/** Parses `input` with `schema`. Throws INVALID with every wrong field. `root` precedes each path. */
export function validate<S extends z.ZodType>(schema: S, input: unknown, root = ""): z.output<S> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const fields = result.error.issues
    .flatMap(leaves)
    .slice(0, PROBLEMS_SHOWN)
    .map((issue) => {
      const found = problem(issue, input);
      return root === "" ? found : { ...found, path: found.path === "" ? root : `${root}.${found.path}` };
    });
  throw new FleetError("INVALID", "the input is not valid", { fields });
}
