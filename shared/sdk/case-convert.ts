/** Options in TypeScript are camelCase, data on the wire is snake_case; this is the only place that turns one into the other. */
type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S;

/** The same members under camelCase names, without what is not named; values are data and stay as they are. */
export type Camel<T> = {
  [K in keyof T as string extends K ? never : K extends string ? CamelCase<K> : never]: T[K];
};

/** Names come from a short list; bounded all the same, since an answer may hold any. */
const NAMES_MAX = 1_000;

function remembered(turn: (name: string) => string): (name: string) => string {
  const known = new Map<string, string>();
  return (name) => {
    const found = known.get(name);
    if (found !== undefined) return found;
    const turned = turn(name);
    if (known.size < NAMES_MAX) known.set(name, turned);
    return turned;
  };
}

const snake = remembered((name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`));
const camel = remembered((name) => name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()));

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
