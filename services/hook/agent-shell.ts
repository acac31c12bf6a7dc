/** How the shell of an agent calls Fleet. */
import { fleetCall, shellWord } from "../../shared/runtime/process/installation.ts";
import type { HookEvent } from "./event.ts";

/**
 * undefined: `fleet`, because a runner's agent has its fleet and its name in the environment. The shell of a user's session has neither,
 * and `fleet` may be in no folder of its PATH.
 */
export function fleetCallOf({ env }: Pick<HookEvent, "env">): string | undefined {
  if (env.FLEET_AGENT_ID !== undefined) return undefined;
  return env.FLEET_HOME === undefined
    ? fleetCall()
    : `FLEET_HOME=${shellWord(env.FLEET_HOME)} ${fleetCall()}`;
}
