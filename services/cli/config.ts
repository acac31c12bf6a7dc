// The options that every command has. They stand beside the settings of the environment and win over them. FLEET_URL,
// FLEET_TENANT and FLEET_AGENT_ID are the SDK's own fields, so that a command and an agent on one machine agree.

import { type Command, Option } from "commander";
import { integer, optional, text } from "../../shared/runtime/settings/config.ts";
import { optionDuration } from "./input/duration.ts";

/** The settings of `fleet up`. */
export const upFields = {
  port: integer("FLEET_NATS_PORT", {
    default: 4222,
    min: -1,
    max: 65_535,
    description: "Port of the standalone fleet's bus; -1 takes any free one",
  }),
} as const;

/** The setting of commands alone: agents are named by FLEET_AGENT_ID. */
export const personFields = {
  person: optional(
    text("FLEET_PERSON", {
      description: "Name of the person that commands act for, unless FLEET_AGENT_ID names an agent",
      defaultNote: "the name of the account",
    }),
  ),
} as const;

/** The global options of a call; undefined: not given. */
export interface Settings {
  readonly url?: string;
  readonly tenant?: string;
  readonly agent?: string;
  readonly person?: string;
  /** Milliseconds. */
  readonly timeout?: number;
  readonly json?: boolean;
  /** False for --no-color. */
  readonly color?: boolean;
}

/** Recognised by its class, because `search --agent` is a filter and not the global option of that name. */
class GlobalOption extends Option {}

function globalOptions(): GlobalOption[] {
  return [
    new GlobalOption(
      "--url <url>",
      "address of the bus (FLEET_URL, else the fleet of this folder; without one nats://127.0.0.1:4222)",
    ),
    new GlobalOption("--tenant <id>", "the tenant (FLEET_TENANT, else default)"),
    new GlobalOption("--person <name>", "act as this person (FLEET_PERSON, else the name of your account)"),
    new GlobalOption("--agent <id>", "act as this agent (FLEET_AGENT_ID), in place of a person"),
    new GlobalOption("--timeout <time>", "how long to wait for an answer: 500ms, 5s, 1m (5s)").argParser(
      optionDuration,
    ),
    new GlobalOption("--json", "print one JSON document, and errors as JSON on standard error"),
    new GlobalOption("--no-color", "print without colours (also NO_COLOR)"),
  ];
}

/** Adds the global options to `command` and all its subcommands, so that they may stand anywhere in the call. */
export function addGlobalOptions(command: Command): void {
  const own = new Set(command.options.map((option) => option.long));
  for (const option of globalOptions()) {
    if (own.has(option.long)) continue;
    command.addOption(command.parent === null ? option : option.hideHelp());
  }
  for (const child of command.commands) addGlobalOptions(child);
}

/** Reads the global options of a call. Of a repeated option, the one nearest to the end wins. */
export function settingsOf(command: Command): Settings {
  const above = command.parent === null ? {} : settingsOf(command.parent);
  const given = command.options
    .filter((option) => option instanceof GlobalOption)
    .map((option) => option.attributeName())
    .filter((name) => command.getOptionValueSource(name) === "cli")
    .map((name) => [name, command.getOptionValue(name)]);
  return { ...above, ...Object.fromEntries(given) };
}
