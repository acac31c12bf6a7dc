/** The tenants that have data in the store. */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Reader } from "../../store/store.ts";
import { parseTenant, tenantsAfter } from "./keyspace.ts";

/**
 * The tenant that follows `tenant`: the default one is first, then the others by name. null after the last.
 */
export async function tenantAfter(reader: Reader, tenant: string): Promise<string | null> {
  const range = tenantsAfter(tenant === DEFAULT_TENANT ? null : tenant);
  const { rows } = await reader.getRange(range, { limit: 1 });
  return rows[0] ? parseTenant(rows[0].key) : null;
}
