// The types of setting that a process can have. A field is data: its name, a description of the accepted
// values, its default and its parser. The same data reads the environment, prints the problems and generates
// deploy/SETTINGS.md.

import { formatDuration, parseDuration } from "./duration.ts";

export interface Field<T> {
  readonly name: string;
  /** The accepted values in words: "integer from 1 to 65535". */
  readonly type: string;
  readonly description: string;
  readonly default: T | undefined;
  /** The default as it would be written in the environment. */
  readonly defaultText: string | undefined;
  /** The default in words, where the program computes it. */
  readonly defaultNote: string | undefined;
  readonly required: boolean;
  readonly secret: boolean;
  /** The value, or undefined when the text is not acceptable. */
  parse(text: string): T | undefined;
}

export interface FieldOptions<T> {
  description: string;
  /** Without a default the setting is required, unless the field is wrapped in `optional`. */
  default?: T;
  /** The default in words, where the program computes it: "the host name". */
  defaultNote?: string;
  /** A secret is never echoed, neither in a problem nor on the settings page. */
  secret?: boolean;
}

/** Inclusive bounds of the value, or of the length for text and lists. */
export interface Bounds<T = number> {
  min?: T;
  max?: T;
}

export function text(name: string, options: FieldOptions<string> & Bounds): Field<string> {
  const type = `text${span(options, String, " characters")}`;
  return field(name, type, options, (raw) => (within(raw.length, options) ? raw : undefined), String);
}

export function integer(name: string, options: FieldOptions<number> & Bounds): Field<number> {
  const read = (raw: string) => {
    const value = /^[+-]?\d+$/.test(raw) ? Number(raw) : Number.NaN;
    return Number.isSafeInteger(value) && within(value, options) ? value : undefined;
  };
  return field(name, `integer${span(options, String)}`, options, read, String);
}

/** Milliseconds in the program; default and bounds may be written either way: 5000 or "5s". */
export function duration(
  name: string,
  options: FieldOptions<number | string> & Bounds<number | string>,
): Field<number> {
  const { default: fallback, min, max, ...rest } = options;
  const bounds = {
    ...(min === undefined ? {} : { min: milliseconds(name, min) }),
    ...(max === undefined ? {} : { max: milliseconds(name, max) }),
  };
  const inMs = fallback === undefined ? rest : { ...rest, default: milliseconds(name, fallback) };
  const read = (raw: string) => {
    const ms = parseDuration(raw);
    return ms !== undefined && within(ms, bounds) ? ms : undefined;
  };
  return field(
    name,
    `duration like 500ms, 2s, 5m, 1h, 7d${span(bounds, formatDuration)}`,
    inMs,
    read,
    formatDuration,
  );
}

const BYTE_UNITS: Readonly<Record<string, number>> = {
  b: 1,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
  tib: 2 ** 40,
};

/** Bytes in the program: "128MiB" is 134217728. A number without a unit is in bytes. */
export function bytes(name: string, options: FieldOptions<number>): Field<number> {
  const read = (raw: string) => {
    const [, number = "", unit = "b"] = /^(\d+(?:\.\d+)?) ?([a-z]+)?$/i.exec(raw) ?? [];
    const size = Math.round(Number(number || Number.NaN) * (BYTE_UNITS[unit.toLowerCase()] ?? Number.NaN));
    return Number.isSafeInteger(size) ? size : undefined;
  };
  return field(name, "size like 64MiB, 2GiB, or a number of bytes", options, read, String);
}

export function boolean(name: string, options: FieldOptions<boolean>): Field<boolean> {
  const words: Record<string, boolean> = {
    true: true,
    false: false,
    1: true,
    0: false,
    yes: true,
    no: false,
    on: true,
    off: false,
  };
  const read = (raw: string) =>
    Object.hasOwn(words, raw.toLowerCase()) ? words[raw.toLowerCase()] : undefined;
  return field(name, "true or false", options, read, String);
}

export function oneOf<const V extends string>(
  name: string,
  values: readonly V[],
  options: FieldOptions<NoInfer<V>>,
): Field<V> {
  const read = (raw: string) => values.find((value) => value === raw);
  return field(name, `one of ${values.join(", ")}`, options, read, String);
}

interface UrlOptions extends FieldOptions<string> {
  /** Without the colon: ["nats", "tls"]. */
  readonly schemes?: readonly string[];
  /** The value may be several addresses, separated by commas. */
  readonly several?: boolean;
}

/** An address, kept exactly as written. */
export function url(name: string, options: UrlOptions): Field<string> {
  const { schemes, several = false } = options;
  const isAddress = (text: string): boolean =>
    URL.canParse(text) && (schemes === undefined || schemes.includes(new URL(text).protocol.slice(0, -1)));
  const read = (raw: string) => {
    const addresses = several ? raw.split(",").map((one) => one.trim()) : [raw];
    return addresses.every(isAddress) ? raw : undefined;
  };
  const one = schemes === undefined ? "URL" : `URL starting with ${schemes.map((s) => `${s}:`).join(" or ")}`;
  return field(name, several ? `${one}, or several with commas` : one, options, read, String);
}

/** Comma-separated; spaces around items and empty items do not count. */
export function list(
  name: string,
  options: FieldOptions<readonly string[]> & Bounds,
): Field<readonly string[]> {
  const read = (raw: string) => {
    const items = raw
      .split(",")
      .map((item) => item.trim())
      .filter((item) => item !== "");
    return within(items.length, options) ? items : undefined;
  };
  return field(name, `comma-separated list${span(options, String, " items")}`, options, read, (v) =>
    v.join(","),
  );
}

/** The same setting, but it may be absent; its value is then undefined. */
export function optional<T>(of: Field<T>): Field<T | undefined> {
  return { ...of, required: false };
}

/** The same setting, but it can be switched off; its value is then null. */
export function orOff<T>(of: Field<T>): Field<T | null> {
  return {
    ...of,
    type: `${of.type}, or off`,
    parse: (raw) => (/^(off|0)$/i.test(raw) ? null : of.parse(raw)),
  };
}

function field<T>(
  name: string,
  type: string,
  options: FieldOptions<T>,
  parse: (raw: string) => T | undefined,
  write: (value: T) => string,
): Field<T> {
  const { description, default: fallback, defaultNote, secret = false } = options;
  const defaultText = fallback === undefined ? undefined : write(fallback);
  // A default that its own field refuses is a mistake in the program, which must show before a user meets it.
  if (defaultText !== undefined && defaultText !== "" && parse(defaultText) === undefined) {
    throw new TypeError(`the default of ${name} is not acceptable to it`);
  }
  return {
    name,
    type,
    description,
    default: fallback,
    defaultText,
    defaultNote,
    required: fallback === undefined,
    secret,
    parse,
  };
}

function milliseconds(name: string, value: number | string): number {
  const ms = typeof value === "number" ? value : parseDuration(value);
  if (ms === undefined) throw new TypeError(`the definition of ${name} has a duration without a unit`);
  return ms;
}

function within(value: number, { min = -Infinity, max = Infinity }: Bounds): boolean {
  return value >= min && value <= max;
}

function span({ min, max }: Bounds, write: (value: number) => string, unit = ""): string {
  if (min !== undefined && max !== undefined) return ` from ${write(min)} to ${write(max)}${unit}`;
  if (min !== undefined) return ` from ${write(min)}${unit}`;
  return max === undefined ? "" : ` up to ${write(max)}${unit}`;
}
