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
const TASKS_MAX = 20_000;

interface TenantPlaces {
  readonly own: KeyPlace;
  readonly tasks: Map<string, KeyPlace>;
}

const tenants = new Map<string, TenantPlaces>();
let taskCount = 0;

/** Asked for each row. Tenants and tasks are tokens, which have no slash. */
export function keyPlaceOf(tenant: string, task: string | null): KeyPlace {
  let places = tenants.get(tenant);
  if (places === undefined) {
    places = { own: { id: `t/${tenant}`, tenant, task: null }, tasks: new Map() };
    tenants.set(tenant, places);
  }
  if (task === null) return places.own;
  const known = places.tasks.get(task);
  if (known !== undefined) return known;
  return newTaskPlace(places, tenant, task);
}

function newTaskPlace({ tasks }: TenantPlaces, tenant: string, task: string): KeyPlace {
  if (taskCount >= TASKS_MAX) {
    for (const { tasks: all } of tenants.values()) all.clear();
    taskCount = 0;
  }
  taskCount += 1;
  const place = { id: `t/${tenant}/${task}`, tenant, task };
  tasks.set(task, place);
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
