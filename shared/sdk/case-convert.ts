/** Options in TypeScript are camelCase, data on the wire is snake_case. Only this file converts names from one to the other. */
type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S;

/** The same members under camelCase names, without index signatures. Values are data and keep their names. */
export type Camel<T> = {
  [K in keyof T as string extends K ? never : K extends string ? CamelCase<K> : never]: T[K];
};

/** The names in use are few, but an answer may contain any name. */
const NAMES_MAX = 1_000;

function cached(convert: (name: string) => string): (name: string) => string {
  const known = new Map<string, string>();
  return (name) => {
    const found = known.get(name);
    if (found !== undefined) return found;
    const converted = convert(name);
    if (known.size < NAMES_MAX) known.set(name, converted);
    return converted;
  };
}

const snake = cached((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
const camel = cached((name) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()));

export function toSnake(options: object): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(options)) {
    if (value !== undefined) result[snake(key)] = value;
  }
  return result;
}

export function toCamel<T extends object>(data: T): Camel<T> {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(data)) {
    result[camel(key)] = value;
  }
  return result as Camel<T>;
}
