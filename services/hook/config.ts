/** The settings of hooks: of the process that every event starts, and of the helper that serves them. */
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import {
  type ConfigOf,
  type Environment,
  integer,
  optional,
  readConfig,
  text,
} from "../../shared/runtime/settings/config.ts";
import { processFields } from "../../shared/runtime/settings/process-settings.ts";

export const hookFields = {
  logLevel: processFields.logLevel,
  hookDir: optional(
    text("FLEET_HOOK_DIR", {
      description: "Folder of the events of agent programs, and of the socket of the helper",
      defaultNote: "`~/.local/state/fleet/hooks` (`XDG_STATE_HOME`)",
    }),
  ),
  /** Read by the programs in deploy/hook. */
  hookWait: optional(
    integer("FLEET_HOOK_WAIT", {
      min: 1,
      description:
        "Milliseconds that an agent waits at most at the end of a turn, the start of a session or a prompt",
      defaultNote: "75 and 2000",
    }),
  ),
  checkpointMessage: optional(
    text("FLEET_HOOK_MESSAGE", {
      description: "File with the message that asks an agent for a checkpoint",
      defaultNote: "the text of `fleet hook message`",
    }),
  ),
} as const;

export interface HookConfig extends Omit<ConfigOf<typeof hookFields>, "hookDir"> {
  /** Absolute. */
  readonly hookDir: string;
}

/** Throws ConfigError. */
export function readHookConfig(env: Environment): HookConfig {
  const config = readConfig(hookFields, env);
  const state = env.XDG_STATE_HOME || join(homedir(), ".local", "state");
  return { ...config, hookDir: resolve(config.hookDir ?? join(state, "fleet", "hooks")) };
}
