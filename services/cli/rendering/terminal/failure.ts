// A failed call for operators: the error, the wrong fields and the next step.

import type { RemovedCheckpoint } from "../../../../shared/protocol/retention.ts";
import type { CallFailure } from "../../runtime/failure.ts";
import { capitalized, plain, principalText, short } from "./text.ts";
import type { View } from "./view.ts";

export function renderFailure({ body, hint }: CallFailure, { colors }: View): string {
  // The hint contains the state and the address of the bus. What is left of a removed checkpoint has members of its own.
  const { stack, bus, url, reason, removed, next, ...others } = body.details ?? {};
  const isInHint = typeof next === "string" && hint.includes(capitalized(next));
  const facts = { ...others, ...(next !== undefined && !isInHint && { next }), ...removedFacts(removed) };
  const about = Object.entries({ ...facts, ...(reason !== undefined && { reason }) });
  const details = about.map(([key, value]) => `${key}=${principalText(short(value))}`).join(", ");
  const fields = (body.fields ?? []).map(({ path, expected, got }) => {
    const where = path === "" ? "the whole input" : path;
    return `  ${plain(where)}: expected ${plain(expected)}${got === undefined ? "" : `; got ${plain(got)}`}`;
  });
  const what = `${plain(body.message, { lines: true })} [${body.code}]`;
  return [
    `${colors.red("error:")} ${what}${details === "" ? "" : ` (${details})`}`,
    ...fields,
    ...(typeof stack === "string" ? [colors.dim(plain(stack, { lines: true }))] : []),
    ...(hint === "" ? [] : [hint]),
  ].join("\n");
}

/** When and by whom, beside the ids that the error has. --json has the rest. */
function removedFacts(removed: unknown): Readonly<Record<string, unknown>> {
  const { removed_at, removed_by, reason } = (removed ?? {}) as Partial<RemovedCheckpoint>;
  return {
    ...(removed_at !== undefined && { removed_at }),
    ...(removed_by !== undefined && { removed_by }),
    ...(reason !== undefined && { removed_for: reason }),
  };
}
