// A failed call for operators: the error, the wrong fields and the next step.

import type { CallFailure } from "../../runtime/failure.ts";
import { plain, principalText, short } from "./text.ts";
import type { View } from "./view.ts";

export function renderFailure({ body, hint }: CallFailure, { colors }: View): string {
  // The hint contains the state and the address of the bus.
  const { stack, bus, url, reason, ...facts } = body.details ?? {};
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
