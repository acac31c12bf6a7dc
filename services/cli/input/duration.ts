// A duration in an option, such as 5s.

import { InvalidArgumentError } from "commander";
import { parseDuration } from "../../../shared/runtime/settings/duration.ts";

/** In milliseconds. A number without a unit is in seconds. */
export function secondsOrDuration(least: "0s" | "1s"): (text: string) => number {
  const leastMs = parseDuration(least) ?? 0;
  return (text) => {
    const ms = parseDuration(/^\d+$/.test(text) ? `${text}s` : text);
    if (ms !== undefined && ms >= leastMs) return ms;
    throw new InvalidArgumentError(
      `Give a time of at least ${least}, such as 10m; a number alone is in seconds.`,
    );
  };
}

/** In milliseconds. */
export function optionDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) throw new InvalidArgumentError("Give a time with its unit, such as 5s.");
  return ms;
}
