// A failure for people: what, the fields that are wrong, and what to do next.

import type { CallFailure } from "../../runtime/failure.ts";
import { plain, short } from "./text.ts";
import type { View } from "./view.ts";

export function renderFailure({ body, hint }: CallFailure, { colors }: View): string {
  // What the bus is and where it was looked for stands in the hint.
  const { stack, bus, url, reason, ...facts } = body.details ?? {};
  const about = Object.entries({ ...facts, ...(reason !== undefined && { reason }) });
  const said = about.map(([key, value]) => `${key}=${short(value)}`).join(", ");
  const fields = (body.fields ?? []).map(({ path, expected, got }) => {
    const where = path === "" ? "the whole input" : path;
    return `  ${plain(where)}: expected ${plain(expected)}${got === undefined ? "" : `; got ${plain(got)}`}`;
  });
  const what = `${plain(body.message, { lines: true })} [${body.code}]`;
  return [
    `${colors.red("error:")} ${what}${said === "" ? "" : ` (${said})`}`,
    ...fields,
    ...(typeof stack === "string" ? [colors.dim(plain(stack, { lines: true }))] : []),
    ...(hint === "" ? [] : [hint]),
  ].join("\n");
}
