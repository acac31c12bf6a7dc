// Issued credentials and API keys, one line each.

import type { RegisteredGrant } from "../../../../shared/bus/access/register/grants.ts";
import type { ApiKeyRecord } from "../../../../shared/protocol/api-key.ts";
import { tableLines } from "../terminal/table.ts";
import { plain, principalText } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export interface ListedGrant extends RegisteredGrant {
  readonly state: "valid" | "expired" | "revoked";
}

const HEADS = ["ID", "NAME", "ROLE", "TENANT", "STATE", "ISSUED", "UNTIL"];
const NO_END = "no end";
const ID_CHARS = 12;

export function renderGrants(grants: readonly ListedGrant[], view: View): string {
  if (grants.length === 0) return "No credentials were issued.";
  const rows = grants.map(({ id, name, role, tenant, state, issued_at, expires_at }) => [
    id.slice(0, ID_CHARS),
    principalText(name),
    role,
    plain(tenant),
    state === "valid" ? view.colors.green(state) : view.colors.yellow(state),
    ago(issued_at, view.now),
    expires_at === null ? NO_END : expires_at,
  ]);
  return grantTable(rows, view);
}

export type ListedApiKey = Pick<
  ApiKeyRecord,
  "id" | "name" | "role" | "tenant" | "created_at" | "expires_at"
> & {
  readonly state: string;
};

export function renderApiKeys(keys: readonly ListedApiKey[], view: View): string {
  if (keys.length === 0) return "There are no API keys.";
  const rows = keys.map(({ id, name, role, tenant, state, created_at, expires_at }) => [
    id,
    principalText(name),
    role,
    plain(tenant),
    state === "valid" ? view.colors.green(state) : view.colors.yellow(state),
    ago(created_at, view.now),
    expires_at === null ? NO_END : expires_at,
  ]);
  return grantTable(rows, view);
}

function grantTable(rows: readonly (readonly string[])[], view: View): string {
  const fit = [
    undefined,
    { least: 12, names: true },
    undefined,
    { leaves: 1 },
    undefined,
    { brief: brieflyAgo },
    { brief: (until: string) => (until === NO_END ? until : brieflyAgo(ago(until, view.now))) },
  ] as const;
  return tableLines(rows, { heads: HEADS, view, fit }).join("\n");
}
