/** Every service of the standalone fleet on one platform: what one of its threads runs, or its only one. */
import { openPlatform, type Platform, type PlatformOptions } from "../../shared/process/platform.ts";
import type { AgentRules } from "../../shared/process/policy.ts";
import type { ServiceContext } from "../../shared/runtime/service.ts";
import { start as startReader } from "../reader/reader.ts";
import { start as startWriter } from "../writer/writer.ts";

/** Throws StartupError; what was started by then is stopped again. */
export async function startServices(
  context: ServiceContext,
  options: PlatformOptions,
  config: AgentRules,
): Promise<Platform> {
  const platform = await openPlatform(context, options);
  try {
    platform.closers.add("writer", await startWriter({ ...platform, config }));
    platform.closers.add("reader", await startReader({ ...platform }));
    return platform;
  } catch (error) {
    await platform.stop().catch((second: unknown) => {
      context.log.error({ error: second }, "closing after a failed start failed");
    });
    throw error;
  }
}
