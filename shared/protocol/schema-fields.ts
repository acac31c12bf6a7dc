// The fields of a schema, for messages about names that it does not have.

import { z } from "zod";

/** The parts of a JSON Schema that name members. */
interface Form {
  readonly properties?: Readonly<Record<string, Form>>;
  readonly items?: Form;
  readonly additionalProperties?: Form | boolean;
  readonly anyOf?: readonly Form[];
}

/** The fields at a place, each with the fields in it. Empty: free names, or no object. */
export function fieldsAt(
  schema: z.ZodType,
  path: readonly string[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const whole = z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }) as Form;
  const members = membersOf(path.reduce(within, alternatives(whole)));
  return new Map(
    [...members].map(([name, form]) => [name, new Set(membersOf(alternatives(form)).keys())] as const),
  );
}

const alternatives = (form: Form): readonly Form[] => [form, ...(form.anyOf ?? []).flatMap(alternatives)];

function membersOf(forms: readonly Form[]): ReadonlyMap<string, Form> {
  return new Map(forms.flatMap(({ properties = {} }) => Object.entries(properties)));
}

/** The forms of a member, of an item of an array, or of a value under a free name. */
function within(forms: readonly Form[], step: string): readonly Form[] {
  return forms.flatMap(({ properties = {}, items, additionalProperties }) => {
    const inner = Object.hasOwn(properties, step) ? properties[step] : (items ?? additionalProperties);
    return typeof inner === "object" ? alternatives(inner) : [];
  });
}
