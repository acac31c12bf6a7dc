/** Options in TypeScript are camelCase, data on the wire is snake_case; this is the only place that turns one into the other. */
type CamelCase<S extends string> = S extends `${infer Head}_${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S;

/** The same members under camelCase names, without what is not named; values are data and stay as they are. */
export type Camel<T> = {
  [K in keyof T as string extends K ? never : K extends string ? CamelCase<K> : never]: T[K];
};

export function toSnake(options: object): Record<string, unknown> {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(options)) {
    if (value !== undefined) result[key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)] = value;
  }
  return result;
}

export function toCamel<T extends object>(data: T): Camel<T> {
  const result: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(data)) {
    result[key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())] = value;
  }
  return result as Camel<T>;
}
