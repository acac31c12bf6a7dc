/**
 * A coordinator in a process of its own that dies at a chosen moment. FLEET_TEST_DIES names it: `before:<label>` when a transaction of that
 * name is about to be made, `after:<label>` when it has been committed and nothing else was done yet, `published` right after an alert was
 * stored. The service itself has no such switch: what it is given is wrapped here.
 */

import { coordinatorFields } from "../../services/coordinator/config.ts";
import { start } from "../../services/coordinator/coordinator.ts";
import type { Bus } from "../../shared/bus/bus.ts";
import { openPlatform } from "../../shared/process/platform.ts";
import { readAgentRules } from "../../shared/process/policy.ts";
import { clusterFields, platformFields } from "../../shared/process/settings.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { runMain } from "../../shared/runtime/main.ts";
import type { Store } from "../../shared/store/store.ts";

const moment = process.env.FLEET_TEST_DIES ?? "";

function come(what: string): void {
  if (what === moment) process.kill(process.pid, "SIGKILL");
}

function dyingStore(store: Store): Store {
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

function dyingBus(bus: Bus): Bus {
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

await runMain({
  service: "fleet-coordinator",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...coordinatorFields }, process.env);
    const platform = await openPlatform(context, { service: "coordinator", ...config });
    const parts = { store: dyingStore(platform.store), backgroundBus: dyingBus(platform.backgroundBus) };
    platform.closers.add(
      "coordinator",
      await start({ ...platform, ...parts, config: readAgentRules(config) }),
    );
    return platform.stop;
  },
});
