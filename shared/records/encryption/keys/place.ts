/** Whose rows a key encrypts: those of a task, those of a tenant that are of no task, or those of the system. */

export interface KeyPlace {
  /** The same text for the same place, and for no other. */
  readonly id: string;
  /** null: the system. */
  readonly tenant: string | null;
  /** null: the rows that are of no task. */
  readonly task: string | null;
}

export const SYSTEM_PLACE: KeyPlace = { id: "s", tenant: null, task: null };

/** More than these are made again when they are needed. */
const PLACES_MAX = 20_000;
const places = new Map<string, KeyPlace>();

/** Tenants and tasks are tokens, which have no slash. */
export function keyPlaceOf(tenant: string, task: string | null): KeyPlace {
  const id = task === null ? `t/${tenant}` : `t/${tenant}/${task}`;
  const known = places.get(id);
  if (known !== undefined) return known;
  if (places.size >= PLACES_MAX) places.clear();
  const place = { id, tenant, task };
  places.set(id, place);
  return place;
}

/** The owner of bucket keys. `tenant` null: the system. */
export function ownerOfTenant(tenant: string | null): KeyPlace {
  return tenant === null ? SYSTEM_PLACE : keyPlaceOf(tenant, null);
}

/** The place whose bucket keys wrap the data keys of a place. */
export function ownerOf(place: KeyPlace): KeyPlace {
  if (place.tenant === null) return SYSTEM_PLACE;
  return place.task === null ? place : keyPlaceOf(place.tenant, null);
}
