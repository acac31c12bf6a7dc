/** The texts of a JSON value: its strings and the names of its members, each with its place. */
import { invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type SecretName, secretNameOf } from "./member-names.ts";

export interface TextPlace {
  /** The JSON pointer. It is made only when it is needed. */
  readonly path: () => string;
  /** What the name of the member says about the value. */
  readonly secret: SecretName | undefined;
  /** The list that has the text as an item. */
  readonly list: readonly unknown[] | undefined;
}

export type MapText = (text: string, place: TextPlace) => string;

type Members = Record<string, unknown>;

/** A command adds levels of its own. */
const DEPTH_MAX = LIMITS.depth_max + 8;

/**
 * A copy of the value with its texts as `map` returns them, as JSON would have it. A name is mapped before its member, and is part of the
 * paths below it.
 */
export function mapTexts<T>(value: T, map: MapText): T {
  return mapped(value, { map, steps: [] }, undefined) as T;
}

/** Calls `visit` with each text of a JSON value, in the order of {@link mapTexts}, without a copy. What it returns for a name is part of the paths. */
export function visitTexts(value: unknown, visit: MapText): void {
  visited(value, { map: visit, steps: [] }, undefined);
}

function visited(value: unknown, walk: Walk, list: readonly unknown[] | undefined): void {
  const { map, steps } = walk;
  if (typeof value === "string") map(value, { path: () => pointer(steps), secret: undefined, list });
  if (typeof value !== "object" || value === null) return;
  requireDepth(steps);
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) below(walk, index, () => visited(item, walk, value));
    return;
  }
  for (const [name, member] of Object.entries(value)) {
    const kept = map(name, nameIn(steps));
    below(walk, kept, () => visited(member, walk, undefined));
  }
}

interface Walk {
  readonly map: MapText;
  readonly steps: (string | number)[];
}

function mapped(
  value: unknown,
  walk: Walk,
  secret: SecretName | undefined,
  list?: readonly unknown[],
): unknown {
  const { map, steps } = walk;
  if (typeof value === "string") return map(value, { path: () => pointer(steps), secret, list });
  if (typeof value !== "object" || value === null) return value;
  requireDepth(steps);
  if (Array.isArray(value))
    return value.map((item, index) => {
      const own = secret ?? optionBefore(value[index - 1]);
      return below(walk, index, () => mapped(item, walk, own, value));
    });
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return mapped(toJSON.call(value), walk, secret);
  return mappedMembers(value as Members, walk, secret);
}

function requireDepth(steps: Walk["steps"]): void {
  if (steps.length > DEPTH_MAX) throw invalid("", `at most ${LIMITS.depth_max} levels`);
}

function below<T>(walk: Walk, step: string | number, map: () => T): T {
  walk.steps.push(step);
  const result = map();
  walk.steps.pop();
  return result;
}

/** Members that hold the value of the object around them. */
const VALUE = /^(?:value|values|data|raw|plain|plaintext)$/i;

function mappedMembers(value: Members, walk: Walk, secret: SecretName | undefined): Members {
  const { map, steps } = walk;
  const named = secret ?? nameInside(value);
  const entries = Object.entries(value).flatMap(([name, member]): [string, unknown][] => {
    if (member === undefined) return [];
    const kept = map(name, nameIn(steps));
    const inside = secret === undefined ? undefined : "inside";
    const own = secretNameOf(name) ?? (VALUE.test(name) ? named : inside);
    return [[kept, below(walk, kept, () => mapped(member, walk, own))]];
  });
  return Object.fromEntries(distinct(entries));
}

/** As in the arguments of a command: `["--password", …]`. */
function optionBefore(item: unknown): SecretName | undefined {
  return typeof item === "string" && /^--[a-z]/.test(item) && secretNameOf(item) !== undefined
    ? "weak"
    : undefined;
}

/** As in lists of headers and variables: `{"name": "DB_PASSWORD", "value": …}`. */
function nameInside({ name, key }: Members): SecretName | undefined {
  const given = typeof name === "string" ? name : typeof key === "string" ? key : undefined;
  return given === undefined ? undefined : secretNameOf(given);
}

const nameIn = (steps: Walk["steps"]): TextPlace => ({
  path: () => pointer(steps),
  secret: undefined,
  list: undefined,
});

/** Two names that are secrets may have the same replacement. */
function distinct(entries: readonly [string, unknown][]): [string, unknown][] {
  const names = new Set<string>();
  // Without the next number of each name, the time of many equal ones would be quadratic.
  const numbers = new Map<string, number>();
  return entries.map(([name, member]) => {
    let free = name;
    if (names.has(name)) {
      let number = numbers.get(name) ?? 2;
      for (; names.has(`${name} ${number}`); number += 1);
      numbers.set(name, number + 1);
      free = `${name} ${number}`;
    }
    names.add(free);
    return [free, member];
  });
}

/** A name may be as long as the content, and many texts may stand below it. */
const PATH_CHARS_MAX = 500;

const shortened = (text: string): string =>
  text.length <= PATH_CHARS_MAX ? text : `${text.slice(0, PATH_CHARS_MAX - 1).toWellFormed()}…`;

const pointer = (steps: Walk["steps"]): string =>
  shortened(
    steps.map((step) => `/${shortened(String(step)).replaceAll("~", "~0").replaceAll("/", "~1")}`).join(""),
  );
