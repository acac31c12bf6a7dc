/** The tenants that have anything in the store. */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Reader } from "../../store/store.ts";
import { parseTenant, tenantsAfter } from "./keyspace.ts";

/** Tenants in the order in which all are gone through: the default one, then the others by name; null after the last. */
export async function tenantAfter(reader: Reader, tenant: string): Promise<string | null> {
  const range = tenantsAfter(tenant === DEFAULT_TENANT ? null : tenant);
  const { rows } = await reader.getRange(range, { limit: 1 });
  return rows[0] ? parseTenant(rows[0].key) : null;
}
