/**
 * Services that die at a chosen moment. FLEET_TEST_DIES names it: `before:<label>` when a transaction of that name is about to be made,
 * `after:<label>` when it has been committed and nothing else was done yet, `published` right after an alert was stored. The services
 * have no such switch: what they are given is wrapped here. FLEET_TEST_FREEZES does the same with SIGSTOP.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import type { Store } from "../../../shared/store/store.ts";

const { FLEET_TEST_DIES: death, FLEET_TEST_FREEZES: freeze } = process.env;
let hasFrozen = false;

function come(what: string): void {
  if (what === death) process.kill(process.pid, "SIGKILL");
  if (what !== freeze || hasFrozen) return;
  hasFrozen = true;
  process.kill(process.pid, "SIGSTOP");
}

export function dyingStore(store: Store): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === "transact") {
        return async (...[options, body]: Parameters<Store["transact"]>) => {
          come(`before:${options.label}`);
          const committed = await target.transact(options, body);
          come(`after:${options.label}`);
          return committed;
        };
      }
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

export function dyingBus(bus: Bus): Bus {
  return new Proxy(bus, {
    get(target, name) {
      if (name === "publishDurable") {
        return async (...call: Parameters<Bus["publishDurable"]>) => {
          const ack = await target.publishDurable(...call);
          come("published");
          return ack;
        };
      }
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
