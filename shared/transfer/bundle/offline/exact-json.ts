/**
 * JSON in exactly one form, RFC 8785. A text that differs from the canonical text of its own value is refused, so two
 * programs cannot read different values in it, and a hash of the text is one of the value.
 */

import { parseJsonText } from "../../../protocol/json.ts";

export type ExactJson = null | boolean | number | string | readonly ExactJson[] | ExactObject;
export interface ExactObject {
  readonly [name: string]: ExactJson;
}

const LEVELS_MAX = 100;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Throws RangeError for a value without canonical form. */
export function exactText(value: ExactJson, level = 0): string {
  if (level > LEVELS_MAX) throw new RangeError("too many levels");
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new RangeError("a lone surrogate");
    return JSON.stringify(value);
  }
  if (typeof value === "number") {
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) throw new RangeError("an unsafe integer");
    return JSON.stringify(value);
  }
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map((item) => exactText(item, level + 1)).join(",")}]`;
  const object = value as ExactObject;
  const names = Object.keys(object).sort();
  const members = names.map((name) => `${exactText(name, level + 1)}:${exactText(object[name]!, level + 1)}`);
  return `{${members.join(",")}}`;
}

/** null: the text is not canonical JSON of an object. */
export function exactObject(text: string): ExactObject | null {
  try {
    const value = parseJsonText(text) as ExactJson;
    return isExactObject(value) && exactText(value) === text ? value : null;
  } catch {
    return null;
  }
}

/** null: the bytes are not UTF-8, or not canonical JSON of an object. */
export function exactObjectIn(bytes: Uint8Array): ExactObject | null {
  const text = utf8Text(bytes);
  return text === null ? null : exactObject(text);
}

export function utf8Text(bytes: Uint8Array): string | null {
  try {
    return decoder.decode(bytes);
  } catch {
    return null;
  }
}

export function isExactObject(value: ExactJson | undefined): value is ExactObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The member if it is an object, else one without members. */
export function objectIn(value: ExactObject, name: string): ExactObject {
  const member = value[name];
  return isExactObject(member) ? member : {};
}

/** Whether the object has these members, and no other one. */
export function hasExactly(value: ExactObject, ...names: readonly string[]): boolean {
  return Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name));
}

/** Whether the value is an integer of at least `least`. */
export function isCountFrom(least: number, value: ExactJson | undefined): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= least;
}

const HEX_64 = /^[0-9a-f]{64}$/;

/** Whether the value is a SHA-256 in lower-case hex. */
export function isHexHash(value: ExactJson | undefined): value is string {
  return typeof value === "string" && HEX_64.test(value);
}

const TIME = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:Z|([+-])(\d\d):(\d\d))$/;

/** Milliseconds since the epoch. null: it is no time of ISO 8601 with a zone. */
export function exactTime(value: ExactJson | undefined): number | null {
  const found = typeof value === "string" ? TIME.exec(value) : null;
  if (found === null) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map((part) => Number(part ?? 0)) as [
    ...[number, number, number, number, number, number],
  ];
  const [, , , , , , , fraction = "", sign, zoneHours, zoneMinutes] = found;
  const lastDay =
    month >= 1 && month <= 12 ? new Date(Date.UTC(2000 + (year % 400), month, 0)).getUTCDate() : 0;
  const isInRange = year >= 1 && day >= 1 && day <= lastDay && hour < 24 && minute < 60 && second < 60;
  if (!isInRange) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const ms = Number(`${fraction}000`.slice(0, 3));
  const offset = sign === undefined ? 0 : (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000;
  const time = date.getTime() + ((hour * 60 + minute) * 60 + second) * 1_000 + ms;
  return sign === "-" ? time + offset : time - offset;
}
