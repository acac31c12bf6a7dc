// A duration in an option, such as 5s.

import { InvalidArgumentError } from "commander";
import { parseDuration } from "../../../shared/runtime/settings/duration.ts";

/** In milliseconds. */
export function optionDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) throw new InvalidArgumentError("Give a time with its unit, such as 5s.");
  return ms;
}
