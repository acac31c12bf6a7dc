/** From a schema's complaints to field problems: every problem at once, each with its path and what was expected. */
import type { z } from "zod";
import { type FieldProblem, FleetError, shown } from "./errors.ts";

const PROBLEMS_SHOWN = 20;

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const step of path) {
    if (typeof value !== "object" || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[step];
  }
  return value;
}

function named(issue: z.core.$ZodIssueInvalidType): string {
  return issue.message.startsWith("Invalid input") ? issue.expected : issue.message;
}

function problem(issue: z.core.$ZodIssue, input: unknown): FieldProblem {
  const path = issue.path.map(String).join(".");
  const value = valueAt(input, issue.path);
  // The library's own sentence for a wrong type names both sides; here each has a field of its own.
  const expected = issue.code === "invalid_type" ? named(issue) : issue.message;
  return { path, expected, got: value === undefined ? "nothing" : shown(value) };
}

/** Parses `input` with `schema`; throws INVALID with every field that is wrong. `root` is put before each path. */
export function validate<S extends z.ZodType>(schema: S, input: unknown, root = ""): z.output<S> {
  const result = schema.safeParse(input);
  if (result.success) return result.data;
  const fields = result.error.issues.slice(0, PROBLEMS_SHOWN).map((issue) => {
    const found = problem(issue, input);
    return root === "" ? found : { ...found, path: found.path === "" ? root : `${root}.${found.path}` };
  });
  throw new FleetError("INVALID", "the input is not valid", { fields });
}
