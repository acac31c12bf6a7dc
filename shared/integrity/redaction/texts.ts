/** The texts of a JSON value: its strings and the names of its members, each with its place. */
import { invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { type SecretName, secretNameOf } from "./member-names.ts";

export interface TextPlace {
  /** The JSON pointer. It is made only when it is needed. */
  readonly path: () => string;
  /** What the name of the member says about the value. */
  readonly secret: SecretName | undefined;
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

interface Walk {
  readonly map: MapText;
  readonly steps: (string | number)[];
}

function mapped(value: unknown, walk: Walk, secret: SecretName | undefined): unknown {
  const { map, steps } = walk;
  if (typeof value === "string") return map(value, { path: () => pointer(steps), secret });
  if (typeof value !== "object" || value === null) return value;
  if (steps.length > DEPTH_MAX) throw invalid("", `at most ${LIMITS.depth_max} levels`);
  if (Array.isArray(value))
    return value.map((item, index) => below(walk, index, () => mapped(item, walk, secret)));
  const { toJSON } = value as { toJSON?: unknown };
  if (typeof toJSON === "function") return mapped(toJSON.call(value), walk, secret);
  return mappedMembers(value as Members, walk, secret);
}

function below(walk: Walk, step: string | number, map: () => unknown): unknown {
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
    const kept = map(name, { path: () => pointer(steps), secret: undefined });
    const own = secretNameOf(name) ?? (VALUE.test(name) ? named : undefined);
    return [[kept, below(walk, kept, () => mapped(member, walk, own))]];
  });
  return Object.fromEntries(distinct(entries));
}

/** As in lists of headers and variables: `{"name": "DB_PASSWORD", "value": …}`. */
function nameInside({ name, key }: Members): SecretName | undefined {
  const given = typeof name === "string" ? name : typeof key === "string" ? key : undefined;
  return given === undefined ? undefined : secretNameOf(given);
}

/** Two names that are secrets may have the same replacement. */
function distinct(entries: readonly [string, unknown][]): [string, unknown][] {
  const names = new Set<string>();
  return entries.map(([name, member]) => {
    let free = name;
    for (let i = 2; names.has(free); i += 1) free = `${name} ${i}`;
    names.add(free);
    return [free, member];
  });
}

const pointer = (steps: readonly (string | number)[]): string =>
  steps.map((step) => `/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
