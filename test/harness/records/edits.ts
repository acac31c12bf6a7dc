/** Random edits of the rows of a store, each from a seed. */
import tuple from "fdb-tuple";
import type { KeyValue } from "../../../shared/store/store.ts";

/** The first part of a row's key after its tenant; `s/…` for the system's. */
export function familyOf({ key }: Pick<KeyValue, "key">): string {
  const [, first, second, third] = tuple.unpack(Buffer.from(key)) as string[];
  return first === "s" ? `s/${second}` : first === "t" ? String(third) : String(first);
}

export interface Edit {
  readonly family: string;
  readonly row: KeyValue;
  readonly name: string;
  /** All rows after the edit. */
  readonly rows: readonly KeyValue[];
}

/** A row deleted, one bit changed, the value of another row of its family, or a copy of it under another key. */
export function editOf(all: readonly KeyValue[], seed: number): Edit {
  const below = randomFrom(seed);
  const families = Map.groupBy(all, familyOf);
  const family = [...families.keys()][below(families.size)] as string;
  const rows = families.get(family) as KeyValue[];
  const row = rows[below(rows.length)] as KeyValue;
  const other = rows[below(rows.length)] as KeyValue;
  const edited = (kind: string, changed: readonly KeyValue[]): Edit => ({
    family,
    row,
    name: `${kind} ${shown(row.key)}`,
    rows: changed,
  });
  const withValue = (value: Uint8Array) => all.map((one) => (one === row ? { ...row, value } : one));
  const kind = below(4);
  if (kind === 0)
    return edited(
      "deleted",
      all.filter((one) => one !== row),
    );
  if (kind === 1 && row.value.length > 0) {
    const at = below(row.value.length);
    return edited(`changed byte ${at} of`, withValue(flipped(row.value, at, below(8))));
  }
  if (kind <= 2) return edited(`value of ${shown(other.key)} in`, withValue(other.value));
  // One of the last bytes, so that the copy stays in the family.
  const key = flipped(row.key, row.key.length - 1 - below(Math.min(16, row.key.length)), below(8));
  const rest = all.filter((one) => Buffer.compare(one.key, key) !== 0);
  return edited(`copied to ${shown(key)} from`, [...rest, { key, value: row.value }]);
}

function flipped(bytes: Uint8Array, at: number, bit: number): Uint8Array {
  const copy = Uint8Array.from(bytes);
  copy[at]! ^= 1 << bit;
  return copy;
}

function shown(key: Uint8Array): string {
  return Buffer.from(key)
    .toString("latin1")
    .replaceAll(/[^ -~]/g, ".");
}

/** The generator "mulberry32". */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
