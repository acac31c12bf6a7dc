// Which principal could do what at a time: one line for each, one column for each right.

import { RIGHT_NAMES, type RightName } from "../../../../shared/protocol/operation-rights.ts";
import { tableLines } from "../terminal/table.ts";
import { plain, principalText } from "../terminal/text.ts";
import type { View } from "../terminal/view.ts";

export interface AccessMatrix {
  readonly at: string;
  readonly rights_version: string;
  /** Since when the table of rights is in force. */
  readonly rights_since: string;
  readonly principals: readonly {
    readonly name: string;
    readonly role: string;
    readonly tenant: string;
    readonly rights: readonly RightName[];
  }[];
  /** The holders of rights without issued credentials. */
  readonly not_listed: string;
}

const VERSION_CHARS = 16;

export function renderMatrix(found: AccessMatrix, view: View): string {
  const { at, rights_version: version, rights_since: since, principals, not_listed: notListed } = found;
  const title = `At ${at}, by the rights ${plain(version.slice(0, VERSION_CHARS))}, in force since ${since}`;
  if (principals.length === 0)
    return [title, "No issued credentials gave such a right.", plain(notListed)].join("\n");
  const heads = ["NAME", "ROLE", "TENANT", ...RIGHT_NAMES.map((name) => name.toUpperCase())];
  const rows = principals.map(({ name, role, tenant, rights }) => [
    principalText(name),
    role,
    plain(tenant),
    ...RIGHT_NAMES.map((right) => (rights.includes(right) ? view.colors.green("yes") : "-")),
  ]);
  const fit = [{ least: 12, names: true }, undefined, { leaves: 1 }] as const;
  return [title, ...tableLines(rows, { heads, view, fit }), "", plain(notListed)].join("\n");
}
