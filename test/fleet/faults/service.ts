/**
 * Program: a writer, a reader, or both in one process, wired like the main.ts of `services/writer` and `services/reader`, with a store between that fails on command.
 * Commands come from the parent; when the parent is gone, so is this.
 */

import { start as startReader } from "../../../services/reader/reader.ts";
import { writerFields } from "../../../services/writer/config.ts";
import { start as startWriter } from "../../../services/writer/writer.ts";
import { openPlatform } from "../../../shared/process/platform.ts";
import { readAgentRules } from "../../../shared/process/policy.ts";
import { clusterFields, platformFields } from "../../../shared/process/settings.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { runMain } from "../../../shared/runtime/main.ts";
import { seededRandom } from "../../load/workload.ts";
import { type BrokenName, brokenStore } from "./broken.ts";
import { type StoreMode, storeFaults } from "./store-faults.ts";

export type Role = "writer" | "reader";

export interface ServiceArguments {
  readonly roles: readonly Role[];
  readonly seed: number;
  readonly broken: BrokenName | null;
  /** What the server's streams may take on disk together. */
  readonly streamBytes: number;
}

const { roles, seed, broken, streamBytes } = JSON.parse(process.argv[2]!) as ServiceArguments;
process.once("disconnect", () => process.exit());

await runMain({
  service: `faults-${roles.join("-")}`,
  start: async (context) => {
    const config = readConfig({ ...platformFields, ...clusterFields, ...writerFields }, process.env);
    const platform = await openPlatform(context, { service: roles.join("-"), ...config, streamBytes });
    const store = broken === null ? platform.store : brokenStore(broken, platform.store);
    const faults = storeFaults(store, seededRandom(seed));
    process.on("message", (mode) => faults.set(mode as StoreMode));
    // Listening alone must not keep a stopped service alive.
    process.channel?.unref();
    const parts = { ...platform, store: faults.store, config: readAgentRules(config) };
    if (roles.includes("writer")) platform.closers.add("writer", await startWriter(parts));
    if (roles.includes("reader")) platform.closers.add("reader", await startReader(parts));
    process.send?.({ ready: true });
    return platform.stop;
  },
});
