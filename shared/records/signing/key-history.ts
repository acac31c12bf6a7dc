/** What the audit chain says about a key that the registry does not have. */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Bytes, ReadOptions, Store } from "../../store/store.ts";
import { decode } from "../kv/codec.ts";
import { after, tenantKeys } from "../kv/keyspace.ts";

/** The entries of one read. */
const SLICE = 500;

/**
 * Whether an entry records that the key was added. Its record is lost then, and with it a revocation: the key must not be registered again. Reads the
 * whole chain of the default tenant, page after page.
 */
export async function wasAdded(store: Store, options: ReadOptions, id: string): Promise<boolean> {
  for (let range = tenantKeys(DEFAULT_TENANT).tenantAudits(); ; ) {
    const { rows, more } = await store.read(options, (reader) => reader.getRange(range, { limit: SLICE }));
    if (rows.some(({ value }) => isAddition(value, id))) return true;
    const last = rows.at(-1);
    if (!more || last === undefined) return false;
    range = { ...range, begin: after(last.key) };
  }
}

/** An entry that cannot be read is found by the scrub. */
function isAddition(value: Bytes, id: string): boolean {
  try {
    const text = decode<string>(value);
    if (!text.includes(id)) return false;
    const { action, subject } = JSON.parse(text) as { action?: unknown; subject?: { key_id?: unknown } };
    return action === "key_add" && subject?.key_id === id;
  } catch {
    return false;
  }
}
