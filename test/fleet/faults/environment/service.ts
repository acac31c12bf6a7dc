/**
 * Program: a writer, a reader, a coordinator, a watchdog, or all of them in one process, composed like their main.ts, over a store that
 * fails on command. The commands come from the parent. The process ends with its parent.
 */

import { coordinatorFields } from "../../../../services/coordinator/config.ts";
import { start as startCoordinator } from "../../../../services/coordinator/coordinator.ts";
import { PromptThread } from "../../../../services/coordinator/prompt-thread.ts";
import { start as startReader } from "../../../../services/reader/reader.ts";
import { readWatchdogConfig, watchdogFields } from "../../../../services/watchdog/config.ts";
import { start as startWatchdog } from "../../../../services/watchdog/watchdog.ts";
import { readWriterConfig, writerFields } from "../../../../services/writer/config.ts";
import { start as startWriter } from "../../../../services/writer/writer.ts";
import { runMain } from "../../../../shared/runtime/process/main.ts";
import { readConfig } from "../../../../shared/runtime/settings/config.ts";
import { openPlatform } from "../../../../shared/service-host/platform.ts";
import { clusterFields, platformFields } from "../../../../shared/service-host/service-settings.ts";
import { seededRandom } from "../../../load/workload.ts";
import { type BrokenName, brokenStore } from "./broken-builds.ts";
import { deafBus } from "./broken-recoveries.ts";
import { killAt, killableStore } from "./kill-points.ts";
import type { Role } from "./service-role.ts";
import { type StoreMode, storeFaults } from "./store-faults.ts";

export interface ServiceArguments {
  readonly roles: readonly Role[];
  readonly seed: number;
  readonly broken: BrokenName | null;
  /** The storage limit of all streams of the server together. */
  readonly streamBytes: number;
  /** The end of the kills at kill points, as `instant`. */
  readonly killsUntil: number;
}

/** The share of a service's kill points. With a higher share one process with all services would hardly ever run. */
const KILL_SHARE = 0.005;
/** The share of the kill points of retention, which are fewer. */
const RETENTION_KILL_SHARE = 0.02;

const { roles, seed, broken, streamBytes, killsUntil } = JSON.parse(process.argv[2]!) as ServiceArguments;
process.once("disconnect", () => process.exit());

await runMain({
  service: `faults-${roles.join("-")}`,
  start: async (context) => {
    const config = readConfig(
      { ...platformFields, ...clusterFields, ...writerFields, ...coordinatorFields, ...watchdogFields },
      process.env,
    );
    const platform = await openPlatform(context, { service: roles.join("-"), ...config, streamBytes });
    const store = broken === null ? platform.store : brokenStore(broken, platform.store);
    const faults = storeFaults(store, seededRandom(seed));
    process.on("message", (mode) => faults.set(mode as StoreMode));
    // The channel to the parent must not keep a stopped service running.
    process.channel?.unref();
    const parts = {
      ...platform,
      store: faults.store,
      config: { ...readWriterConfig(config), watchdog: readWatchdogConfig(config) },
    };
    const kills = { untilUs: killsUntil, share: KILL_SHARE, random: seededRandom(seed + 1), killAt };
    const killable = (service: "writer" | "coordinator" | "watchdog", share = KILL_SHARE) => ({
      ...parts,
      store: killableStore(faults.store, service, { ...kills, share }),
    });
    if (roles.includes("writer"))
      platform.closers.add("writer", await startWriter(killable("writer", RETENTION_KILL_SHARE)));
    if (roles.includes("reader")) platform.closers.add("reader", await startReader(parts));
    if (roles.includes("coordinator")) {
      const prompts = new PromptThread();
      platform.closers.add("prompts", () => prompts.close());
      const context = { ...killable("coordinator"), prompts };
      platform.closers.add("coordinator", await startCoordinator(context));
    }
    const bus = broken === "leases_ignored" ? deafBus(parts.bus) : parts.bus;
    if (roles.includes("watchdog"))
      platform.closers.add("watchdog", await startWatchdog({ ...killable("watchdog"), bus }));
    process.send?.({ ready: true });
    return platform.stop;
  },
});
