/**
 * The layout version and the incarnation, checked when a service opens the store. A store of a newer Fleet is
 * refused before anything is written. The incarnation precedes every stamp and grows with each restore,
 * because a restored or moved cluster may issue smaller stamps than before.
 */
import { randomBytes } from "node:crypto";
import { FleetError } from "../../protocol/errors.ts";
import type { Reader, Store } from "../../store/store.ts";
import { decode, encode } from "./codec.ts";
import { systemKeys } from "./keyspace.ts";

const LAYOUT_VERSION = 1;
/** The oldest version of Fleet that reads this layout. To be set with the layout. */
const LAYOUT_NEEDS = "0.1.0";
const OPEN_DEADLINE_MS = 5_000;
const KEY_BYTES = 32;

export interface Format {
  readonly layout: number;
  /** The oldest version of Fleet that reads the layout, for the refusal of an older one. Absent: the first. */
  readonly needs?: string;
  readonly incarnation: number;
  /** When the store began empty, ISO 8601. Events from before are of another store. Absent: an earlier version began it. */
  readonly created_at?: string;
  /** The newest restore of a backup into this store. Absent: there was none. */
  readonly restored?: StoreRestore;
  /** The key of the ids under which services publish, in hex: only a reader of the store can foresee an id. */
  readonly message_key: string;
}

export interface StoreRestore {
  /** ISO 8601. Events before it, whose entries the store does not have, are of the future that it lost. */
  readonly at: string;
  /** The time of the backup, before its copy began. */
  readonly backup_at: string;
  /** The backup had the rows of the store, and no other bytes of its file. Absent: not known, as with a tool of the engine or a backup of an earlier version. */
  readonly rows_only?: true;
  /** The tenant whose tasks are superseded next, after the named one. Services do not open the store then. null: the restore has ended. */
  readonly next: { readonly tenant: string; readonly after: string | null } | null;
}

const reading = { label: "read_format", deadlineMs: OPEN_DEADLINE_MS } as const;

/** null: the store is empty. */
export const readFormat = (store: Store): Promise<Format | null> => store.read(reading, formatIn);

export async function formatIn(reader: Reader): Promise<Format | null> {
  const value = await reader.get(systemKeys.meta("format"));
  return value === undefined ? null : requireLayout(decode<Format>(value));
}

/**
 * Reads and checks the format, or writes it into an empty store. Throws UNSUPPORTED_VERSION for a newer
 * layout, CONFLICT for a store whose restore did not end.
 */
export async function openFormat(store: Store): Promise<Format> {
  const options = { label: "open_format", deadlineMs: OPEN_DEADLINE_MS, onUnknown: "safe" } as const;
  const { value } = await store.transact(options, async (tx) => {
    const key = systemKeys.meta("format");
    const known = await tx.get(key);
    const found = known === undefined ? null : decode<Format>(known);
    // An earlier version wrote no message key.
    if (found !== null && (found.layout > LAYOUT_VERSION || found.message_key !== undefined)) return found;
    const message_key = randomBytes(KEY_BYTES).toString("hex");
    const layout = { layout: LAYOUT_VERSION, needs: LAYOUT_NEEDS };
    const begun = found ?? { incarnation: 1, created_at: new Date().toISOString() };
    const format: Format = { ...layout, ...begun, message_key };
    tx.set(key, encode(format));
    return format;
  });
  const { restored } = requireLayout(value);
  if (restored?.next) {
    throw new FleetError("CONFLICT", "the restore of this store did not end; repeat it", {
      details: { begun: restored.at, next: "fleet restore" },
    });
  }
  return value;
}

function requireLayout(format: Format): Format {
  if (format.layout <= LAYOUT_VERSION) return format;
  throw new FleetError("UNSUPPORTED_VERSION", "the store was written by a newer version of Fleet", {
    fields: [{ path: "format.layout", expected: `at most ${LAYOUT_VERSION}`, got: String(format.layout) }],
    details: {
      found: format.layout,
      supported: LAYOUT_VERSION,
      ...(format.needs !== undefined && { needs: format.needs }),
    },
  });
}
