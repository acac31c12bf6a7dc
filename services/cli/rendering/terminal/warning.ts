// A warning for operators, in one line.

import type { FleetWarning } from "../../../../shared/sdk/sdk.ts";
import { plain } from "./text.ts";

/** `next` of its details is a command or an option. */
export function renderWarning({ text, details }: Pick<FleetWarning, "text" | "details">): string {
  const { next, ...others } = details;
  const facts = Object.entries(others).map(([key, value]) => `${key}=${value}`);
  const about = facts.length === 0 ? "" : ` (${facts.join(", ")})`;
  return plain(`warning: ${text}${about}${next === undefined ? "" : `; use \`${next}\``}`);
}
