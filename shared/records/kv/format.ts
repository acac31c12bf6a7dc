/**
 * The layout version and the incarnation, checked when a service opens the store. A store of a newer Fleet is
 * refused before anything is written. The incarnation precedes every stamp and grows with each restore,
 * because a restored or moved cluster may issue smaller stamps than before.
 */
import { FleetError } from "../../protocol/errors.ts";
import type { Store } from "../../store/store.ts";
import { decode, encode } from "./codec.ts";
import { systemKeys } from "./keyspace.ts";

const LAYOUT_VERSION = 1;
const OPEN_DEADLINE_MS = 5_000;

export interface Format {
  readonly layout: number;
  readonly incarnation: number;
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
    if (known) return decode<Format>(known);
    const initial: Format = { layout: LAYOUT_VERSION, incarnation: 1 };
    tx.set(key, encode(initial));
    return initial;
  });
  if (value.layout > LAYOUT_VERSION) {
    throw new FleetError("UNSUPPORTED_VERSION", "the store was written by a newer version of Fleet", {
      details: { found: value.layout, supported: LAYOUT_VERSION },
    });
  }
  return value;
}
