/** The services of the standalone fleet on one platform, as each service thread runs them, or the main thread if there are none. */

import { join } from "node:path";
import { readAccountName, readRoleKey } from "../../shared/bus/access/keys.ts";
import { ACCESS_FOLDER } from "../../shared/bus/access/local-credentials.ts";
import type { ServiceContext } from "../../shared/runtime/process/service.ts";
import { openPlatform, type Platform, type PlatformOptions } from "../../shared/service-host/platform.ts";
import { reserveStore } from "../../shared/service-host/reserve-store.ts";
import { start as startCoordinator } from "../coordinator/coordinator.ts";
import { PromptThread } from "../coordinator/prompt-thread.ts";
import { start as startReader } from "../reader/reader.ts";
import { serveAgentCredentials } from "../signer/agent-credentials.ts";
import { start as startWatchdog, type WatchdogRules } from "../watchdog/watchdog.ts";
import type { WriterConfig } from "../writer/config.ts";
import { start as startWriter } from "../writer/writer.ts";

/** The rules of all services. */
export type ServiceRules = WatchdogRules & WriterConfig;

export interface ServicesConfig extends ServiceRules {
  /** True if a coordinator and a watchdog are among them. One of each is enough: the coordinator's prompts take a thread and its memory. */
  readonly coordinates: boolean;
}

/** The key with which the fleet answers runners on other machines. */
function agentKeys({ busCredentials, home }: PlatformOptions) {
  if (busCredentials === undefined || home === undefined) return undefined;
  const folder = join(home, ACCESS_FOLDER);
  const [account, agent] = [readAccountName(folder), readRoleKey(folder, "agent")];
  return account === undefined || agent === undefined ? undefined : { account, roles: { agent } };
}

/** Throws StartupError after stopping everything that was started. */
export async function startServices(
  context: ServiceContext,
  options: PlatformOptions,
  { coordinates, ...config }: ServicesConfig,
): Promise<Platform> {
  const platform = await openPlatform(context, options);
  try {
    platform.closers.add("writer", await startWriter({ ...platform, config }));
    platform.closers.add("reader", await startReader({ ...platform, config }));
    if (!coordinates) {
      platform.markServing();
      return platform;
    }
    const keys = agentKeys(options);
    if (keys !== undefined)
      platform.closers.add(
        "credentials of agents",
        await serveAgentCredentials({ ...context, keys }, platform.bus),
      );
    const store = reserveStore(platform.store, platform.disk);
    const prompts = new PromptThread();
    platform.closers.add("prompts", () => prompts.close());
    platform.closers.add("coordinator", await startCoordinator({ ...platform, store, prompts, config }));
    platform.closers.add("watchdog", await startWatchdog({ ...platform, store, config }));
    platform.markServing();
    return platform;
  } catch (error) {
    await platform.stop().catch((second: unknown) => {
      context.log.error({ error: second }, "closing after a failed start failed");
    });
    throw error;
  }
}
