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
  const rows = grants.map((grant) => rowOf(grant.id.slice(0, ID_CHARS), grant, grant.issued_at, view));
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
  const rows = keys.map((key) => rowOf(key.id, key, key.created_at, view));
  return grantTable(rows, view);
}

type Holder = Omit<ListedApiKey, "id" | "created_at" | "role"> & { readonly role: string };

function rowOf(
  id: string,
  { name, role, tenant, state, expires_at }: Holder,
  madeAt: string,
  view: View,
): string[] {
  return [
    id,
    principalText(name),
    role,
    plain(tenant),
    state === "valid" ? view.colors.green(state) : view.colors.yellow(state),
    ago(madeAt, view.now),
    expires_at === null ? NO_END : expires_at,
  ];
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
