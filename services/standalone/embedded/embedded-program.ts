/**
 * The child process of createFleet(): a standalone fleet without a user of its own. It stops and deletes its folder when the channel to
 * its parent closes. The operating system closes the channel however the parent ends, also by SIGKILL.
 */
import { rmSync } from "node:fs";
import { enableCompileCache } from "../../../deploy/local/compile-cache.mjs";

// Only modules that are loaded after this call are cached.
enableCompileCache();
const { runMain } = await import("../../../shared/runtime/process/main.ts");
const { readConfig } = await import("../../../shared/runtime/settings/config.ts");
const { standaloneFields } = await import("../config.ts");
const { start } = await import("../standalone.ts");

/** What the parent gets when the fleet is up. */
export interface EmbeddedAddresses {
  readonly url: string;
  readonly opsUrl: string;
}

const config = readConfig(standaloneFields, process.env);
process.on("exit", () => {
  // With a parent, the folder is left to it: it reads the log of a failed start.
  if (!process.connected) rmSync(config.home, { recursive: true, force: true, maxRetries: 20 });
});
await runMain({
  service: "fleet",
  stopTimeoutMs: 25_000,
  start: async (context) => {
    const stop = () => void process.kill(process.pid, "SIGTERM");
    process.once("disconnect", stop);
    // The parent may have ended before the listener existed.
    if (!process.connected) stop();
    const fleet = await start({ ...context, config });
    const addresses: EmbeddedAddresses = { url: fleet.busUrl, opsUrl: fleet.opsUrl };
    // Without a parent the message is lost, and the process stops anyway.
    process.send?.(addresses, undefined, undefined, () => {});
    return fleet.stop;
  },
});
