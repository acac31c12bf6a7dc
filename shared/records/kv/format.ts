/**
 * The layout version and the incarnation, checked when a service opens the store. A store of a newer Fleet is
 * refused before anything is written. The incarnation precedes every stamp and grows with each restore,
 * because a restored or moved cluster may issue smaller stamps than before.
 */
import { randomBytes } from "node:crypto";
import { FleetError } from "../../protocol/errors.ts";
import type { Store } from "../../store/store.ts";
import { decode, encode } from "./codec.ts";
import { systemKeys } from "./keyspace.ts";

const LAYOUT_VERSION = 1;
const OPEN_DEADLINE_MS = 5_000;
const KEY_BYTES = 32;

export interface Format {
  readonly layout: number;
  readonly incarnation: number;
  /** The key of the ids under which services publish, in hex: only a reader of the store can foresee an id. */
  readonly message_key: string;
}

/**
 * Reads and checks the format, or writes it into an empty store. Throws UNSUPPORTED_VERSION for a newer
 * layout.
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
    const format: Format = { layout: LAYOUT_VERSION, incarnation: 1, ...found, message_key };
    tx.set(key, encode(format));
    return format;
  });
  if (value.layout > LAYOUT_VERSION) {
    throw new FleetError("UNSUPPORTED_VERSION", "the store was written by a newer version of Fleet", {
      details: { found: value.layout, supported: LAYOUT_VERSION },
    });
  }
  return value;
}
