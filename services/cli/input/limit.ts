// The option --limit of every command that answers in pages. It refuses a wrong size before the fleet is asked.

import { InvalidArgumentError, Option } from "commander";
import { UsageError } from "../runtime/usage.ts";

/** The range as the help and a refusal write it. */
export const limitRange = (usual: number, most: number): string => `default ${usual}, at most ${most}`;

export function limitOption(usual: number, most: number, range = limitRange(usual, most)): Option {
  return new Option("-n, --limit <n>", `the size of a page (${range})`).argParser((text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= 1 && value <= most) return value;
    throw new InvalidArgumentError(advice(range));
  });
}

/** For a command whose maximum depends on other options. Throws UsageError. */
export function requireLimit(limit: number | undefined, most: number, range: string): void {
  if (limit === undefined || limit <= most) return;
  throw new UsageError(`--limit is too large: ${limit}`, advice(range));
}

const advice = (range: string): string => `Give a whole number, 1 or more (${range}).`;

/** The help of --cursor, for all lists. */
export const CURSOR = "continue after an earlier page";
