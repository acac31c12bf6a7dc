/**
 * Services that end at a kill point. FLEET_TEST_KILL_AT names it:
 *
 * - `before:<label>`: before the transaction with this label
 * - `after:<label>`: after its commit, before anything else happens
 * - `publish:<kind>`: after a message was stored in a stream; the kind is the second token of its subject
 * - `publish:reply`: after an answer was sent
 *
 * FLEET_TEST_PAUSE_AT names a kill point at which the process stops once with SIGSTOP. The services have no such switch: these
 * functions wrap the store and the bus that a test program gives them.
 */
import type { Bus } from "../../../shared/bus/bus.ts";
import type { Store } from "../../../shared/store/store.ts";

const { FLEET_TEST_KILL_AT: killAt, FLEET_TEST_PAUSE_AT: pauseAt } = process.env;
let wasPaused = false;

function reach(point: string): void {
  if (point === killAt) process.kill(process.pid, "SIGKILL");
  if (point !== pauseAt || wasPaused) return;
  wasPaused = true;
  process.kill(process.pid, "SIGSTOP");
}

export function killableStore(store: Store): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === "transact") {
        return async (...[options, body]: Parameters<Store["transact"]>) => {
          reach(`before:${options.label}`);
          const committed = await target.transact(options, body);
          reach(`after:${options.label}`);
          return committed;
        };
      }
      return bound(target, name);
    },
  });
}

export function killableBus(bus: Bus): Bus {
  return new Proxy(bus, {
    get(target, name) {
      if (name === "publish") {
        return (...call: Parameters<Bus["publish"]>) => {
          target.publish(...call);
          // A round trip to the server: the answer has left this process before it dies.
          if (killAt === "publish:reply")
            void target.health({ timeoutMs: 2_000 }).then(() => reach("publish:reply"));
        };
      }
      if (name === "publishDurable") {
        return async (...call: Parameters<Bus["publishDurable"]>) => {
          const ack = await target.publishDurable(...call);
          reach(`publish:${call[0].split(".")[1]}`);
          return ack;
        };
      }
      return bound(target, name);
    },
  });
}

function bound<T extends object>(target: T, name: string | symbol): unknown {
  const value = Reflect.get(target, name) as unknown;
  return typeof value === "function" ? value.bind(target) : value;
}
