/**
 * A writer in a process of its own that dies at a chosen moment. FLEET_TEST_DIES names it: `transact:<label>` or `publish:<kind>`, each
 * right after that was done and before anything else is; FLEET_TEST_AWAY=yes lets its store be away. The service itself has no such
 * switch: what it is given is wrapped here.
 */

import { writerFields } from "../../../services/writer/config.ts";
import { start } from "../../../services/writer/writer.ts";
import type { Bus } from "../../../shared/bus/bus.ts";
import { runMain } from "../../../shared/runtime/process/main.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../../shared/service-host/platform.ts";
import { readAgentRules } from "../../../shared/service-host/policy-file.ts";
import { clusterFields, platformFields } from "../../../shared/service-host/service-settings.ts";
import type { Store } from "../../../shared/store/store.ts";
import { awayStore } from "../stores/away-store.ts";

const moment = process.env.FLEET_TEST_DIES ?? "";

function done(what: string): void {
  if (what === moment) process.kill(process.pid, "SIGKILL");
}

function dyingStore(store: Store): Store {
  const wrapped = awayStore(store, () => (process.env.FLEET_TEST_AWAY === "yes" ? "refuses" : "no"));
  return {
    ...wrapped,
    async transact(options, body) {
      const committed = await wrapped.transact(options, body);
      done(`transact:${options.label}`);
      return committed;
    },
  };
}

function dyingBus(bus: Bus): Bus {
  return new Proxy(bus, {
    get(target, name) {
      if (name === "publish") {
        return (...call: Parameters<Bus["publish"]>) => {
          target.publish(...call);
          // What was sent is given the time to leave: the message that answers has been seen then.
          if (moment === "publish:reply")
            void target.health({ timeoutMs: 2_000 }).then(() => done("publish:reply"));
        };
      }
      if (name === "publishDurable") {
        return async (...call: Parameters<Bus["publishDurable"]>) => {
          const ack = await target.publishDurable(...call);
          done(`publish:${call[0].split(".")[1]}`);
          return ack;
        };
      }
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

await runMain({
  service: "fleet-writer",
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...writerFields }, process.env);
    const platform = await openPlatform(context, { service: "writer", ...config });
    const { store, bus, backgroundBus } = platform;
    const parts = { store: dyingStore(store), bus: dyingBus(bus), backgroundBus: dyingBus(backgroundBus) };
    platform.closers.add("writer", await start({ ...platform, ...parts, config: readAgentRules(config) }));
    process.stdout.write("writer started\n");
    return platform.stop;
  },
});
