/** The tenants that have data in the store. */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Bytes, KeyRange, Reader } from "../../store/store.ts";
import { children, elementsOf, name } from "./key-elements.ts";
import { KEYS_ROOT } from "./keyspace.ts";

/**
 * The tenant that follows `tenant`: the default one is first, then the others by name. null after the last.
 */
export async function tenantAfter(reader: Reader, tenant: string): Promise<string | null> {
  const range = tenantsAfter(tenant === DEFAULT_TENANT ? null : tenant);
  const { rows } = await reader.getRange(range, { limit: 1 });
  return rows[0] ? parseTenant(rows[0].key) : null;
}

/** The keys of all tenants after `tenant`; null: of all tenants but the default one. */
function tenantsAfter(tenant: string | null): KeyRange {
  const all = Buffer.concat([KEYS_ROOT, name("t")]);
  const { begin, end } = children(all);
  return { begin: tenant === null ? begin : children(Buffer.concat([all, name(tenant)])).end, end };
}

function parseTenant(key: Bytes): string {
  return elementsOf(key)[2] as string;
}
