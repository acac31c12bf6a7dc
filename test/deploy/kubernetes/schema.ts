/** Compares resources with tables of the types of an API: unknown and missing fields, and values of another type. */
import { readdirSync, readFileSync } from "node:fs";

export interface SchemaTable {
  readonly source: string;
  /** apiVersion/kind → the name of the type. */
  readonly kinds: Readonly<Record<string, string>>;
  /** Fields with their types; the name of a required one ends with `!`. `[T]` is a list, `{T}` a map. */
  readonly types: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export interface Resource {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly [field: string]: unknown;
}

const FOLDER = new URL("schemas/", import.meta.url);

/** By their file names, such as `kubernetes-1.32`. */
export function schemaTables(): Map<string, SchemaTable> {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));
  return new Map(
    names.map((name) => [
      name.replace(".json", ""),
      JSON.parse(readFileSync(new URL(name, FOLDER), "utf8")) as SchemaTable,
    ]),
  );
}

export const kindOf = ({ apiVersion, kind }: Resource): string => `${apiVersion}/${kind}`;
export const nameOf = ({ kind, metadata }: Resource): string => `${kind} ${metadata.name}`;

/** Returns one line for each problem; undefined if the table does not have the kind. */
export function problemsOf(resource: Resource, tables: readonly SchemaTable[]): string[] | undefined {
  const kinds = Object.assign({}, ...tables.map((table) => table.kinds)) as SchemaTable["kinds"];
  const types = Object.assign({}, ...tables.map((table) => table.types)) as SchemaTable["types"];
  const type = kinds[kindOf(resource)];
  return type === undefined ? undefined : compare(resource, type, nameOf(resource), types);
}

const QUANTITY = /^\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$/;

/** Of the fields that the tables have as `{string}`. */
const PATTERNS: readonly (readonly [path: RegExp, pattern: RegExp])[] = [
  [/\.(?:requests|limits|hard|default|defaultRequest)\.[\w.]+$/, QUANTITY],
  [/\.(?:labels|matchLabels)\.[\w./-]+$/, /^([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?$/],
  [/^\w+ \S+\.metadata\.name$/, /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/],
];

function compare(value: unknown, type: string, path: string, types: SchemaTable["types"]): string[] {
  if (value === null || value === undefined) return [`${path}: is empty`];
  if (type.startsWith("[")) {
    if (!Array.isArray(value)) return [`${path}: is no list`];
    return value.flatMap((one, index) => compare(one, type.slice(1, -1), `${path}[${index}]`, types));
  }
  if (type.startsWith("{")) {
    if (!isMap(value)) return [`${path}: is no map`];
    return Object.entries(value).flatMap(([key, one]) =>
      compare(one, type.slice(1, -1), `${path}.${key}`, types),
    );
  }
  const fields = types[type];
  if (fields === undefined) return scalar(value, type, path);
  return isMap(value) ? members(value, fields, path, types) : [`${path}: is no map`];
}

function members(
  value: Readonly<Record<string, unknown>>,
  fields: Readonly<Record<string, string>>,
  path: string,
  types: SchemaTable["types"],
): string[] {
  const missing = Object.keys(fields)
    .filter((field) => field.endsWith("!") && !Object.hasOwn(value, field.slice(0, -1)))
    .map((field) => `${path}: has no ${field.slice(0, -1)}`);
  const others = Object.entries(value).flatMap(([field, one]) => {
    const type = fields[field] ?? fields[`${field}!`];
    return type === undefined
      ? [`${path}: has the unknown field ${field}`]
      : compare(one, type, `${path}.${field}`, types);
  });
  return [...missing, ...others];
}

function scalar(value: unknown, type: string, path: string): string[] {
  const isRight = {
    // A number is a quantity too.
    string: typeof value === "string" || (typeof value === "number" && isQuantity(path)),
    number: typeof value === "number",
    boolean: typeof value === "boolean",
    IntOrString: typeof value === "string" || Number.isInteger(value),
    any: true,
  }[type];
  if (isRight === undefined) return [`${path}: has the type ${type}, which the table does not have`];
  if (!isRight) return [`${path}: is ${JSON.stringify(value)} and no ${type}`];
  const wrong = PATTERNS.find(([place, pattern]) => place.test(path) && !pattern.test(String(value)));
  return wrong === undefined ? [] : [`${path}: ${JSON.stringify(value)} does not match ${wrong[1]}`];
}

const isQuantity = (path: string): boolean => PATTERNS[0]![0].test(path);
const isMap = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
