// How many: one option for every command that answers in pages, which names the limits before the server has to.

import { InvalidArgumentError, Option } from "commander";
import { UsageError } from "../runtime/usage.ts";

/** As help says it and a refusal repeats it. */
export const limitRange = (usual: number, most: number): string => `default ${usual}, at most ${most}`;

export function limitOption(usual: number, most: number, range = limitRange(usual, most)): Option {
  return new Option("-n, --limit <n>", `how many (${range})`).argParser((text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= 1 && value <= most) return value;
    throw new InvalidArgumentError(advice(range));
  });
}

/** Where the maximum depends on other options. Throws UsageError. */
export function requireLimit(limit: number | undefined, most: number, range: string): void {
  if (limit === undefined || limit <= most) return;
  throw new UsageError(`--limit is too large: ${limit}`, advice(range));
}

const advice = (range: string): string => `Give a whole number, 1 or more (${range}).`;
