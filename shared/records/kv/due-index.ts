/** Reading an index of what is due by its time: the longest overdue first, of all tenants. */
import type { Bytes, KeyRange, KeyValue, Reader } from "../../store/store.ts";
import { after } from "./keyspace.ts";

export interface DueIndex<P, T> {
  /** What is due by the moment that is asked about. */
  readonly range: KeyRange;
  readonly placeOf: (row: KeyValue) => P;
  readonly recordKey: (place: P) => Bytes;
  /** null: it cannot be read; whoever asks for it is told, and the others must not wait for a person. */
  readonly decode: (value: Bytes | undefined, place: P) => T | null;
}

/** At most `limit`. `passOver`: not these, and they keep none of the others out, however many they are. */
export async function readDue<P, T>(
  reader: Reader,
  { range: due, placeOf, recordKey, decode }: DueIndex<P, T>,
  limit: number,
  passOver: (place: P) => boolean = () => false,
): Promise<T[]> {
  const found: T[] = [];
  for (let range = due; ; ) {
    const { rows, more } = await reader.getRange(range, { limit });
    const places = rows.map(placeOf).filter((place) => !passOver(place));
    const values = await reader.getMany(places.map(recordKey));
    found.push(...places.flatMap((place, i) => decode(values[i], place) ?? []));
    const last = rows.at(-1);
    if (found.length >= limit || !more || last === undefined) return found.slice(0, limit);
    range = { ...range, begin: after(last.key) };
  }
}
