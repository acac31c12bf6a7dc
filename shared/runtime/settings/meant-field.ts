/** The fields that were probably meant by a name that a settings file does not have. */
import type { FieldProblem } from "../../protocol/errors.ts";
import { fieldsAt } from "../../protocol/schema-fields.ts";
import { NO_FIELD, type Schema } from "../../protocol/validation.ts";
import { nearestName } from "./did-you-mean.ts";

/** A shorter name is close to too many others. */
const LETTERS_MIN = 4;

/** The problem of an unknown name, with the names that were probably meant, or else with those that exist. Other problems stay as they are. */
export function withMeantField(problem: FieldProblem, schema: Schema): FieldProblem {
  if (problem.expected !== NO_FIELD) return problem;
  const path = problem.path.split(".");
  const name = path.pop() ?? "";
  const members = fieldsAt(schema, path);
  const names = [...members.keys()];
  if (names.length === 0 || names.includes(name)) return problem;
  const meant = meantBy(name, members);
  const help =
    meant.length > 0 ? `did you mean ${meant.join(" or ")}?` : `the fields here are ${names.join(", ")}`;
  return { ...problem, expected: `${NO_FIELD} (${help})` };
}

function meantBy(name: string, members: ReturnType<typeof fieldsAt>): string[] {
  const names = [...members.keys()];
  const near = name.length < LETTERS_MIN ? undefined : nearestName(name, names);
  const longer = near ?? names.find((one) => one.startsWith(`${name}_`));
  // The right field, one level too high.
  const inner = names.filter((one) => members.get(one)!.has(name));
  return [...(longer === undefined ? [] : [longer]), ...inner.map((one) => `${one}.${name}`)];
}
