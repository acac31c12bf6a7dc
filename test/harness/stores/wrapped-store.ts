// A store with another `transact`; all other operations are those of the real store.

import type { Store } from "../../../shared/store/store.ts";

export function wrappedStore(store: Store, transact: Store["transact"]): Store {
  return {
    name: store.name,
    transact,
    read: (options, body) => store.read(options, body),
    changed: (key, lastSeen, options) => store.changed(key, lastSeen, options),
    health: (options) => store.health(options),
    close: (options) => store.close(options),
  };
}
