/** The environment of an embedded fleet: that of its parent without settings, because those are for the user's own fleet. */
import { invalid } from "../../../shared/protocol/errors.ts";
import { SETTING_NAMES, unknownSettings } from "../../../shared/runtime/settings/known-settings.ts";

const PREFIX = "FLEET_";
/** The path of the program belongs to the machine, not to a fleet. */
const KEPT = "FLEET_NATS_SERVER";
/** Its flags are for the parent: a debugger or a loader of a test runner would delay or break the child. */
const NODE_FLAGS = "NODE_OPTIONS";

const DEFAULTS = {
  FLEET_NATS_PORT: "-1",
  FLEET_OPS_PORT: "0",
  FLEET_GATEWAY_PORT: "off",
  // One thread starts fastest.
  FLEET_THREADS: "1",
  FLEET_LOG_LEVEL: "warn",
} as const;

export function cleanEnvironment(): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(
    ([name]) => name === KEPT || !(name.startsWith(PREFIX) || name === NODE_FLAGS),
  );
  return Object.fromEntries(entries);
}

export function embeddedEnvironment(
  home: string,
  settings: Readonly<Record<string, string>>,
): NodeJS.ProcessEnv {
  return { ...cleanEnvironment(), ...DEFAULTS, ...settings, FLEET_HOME: home };
}

/** Throws INVALID. A wrong value is reported by the start. */
export function requireSettings(settings: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(settings)) {
    if (typeof value !== "string") throw invalid(`settings.${name}`, "a string", value);
    if (name === "FLEET_HOME") throw invalid(`settings.${name}`, "nothing: the folder is a new one", value);
    if (SETTING_NAMES.has(name)) continue;
    const meant = unknownSettings({ [name]: "x" })[0]?.meant;
    const expected =
      meant === undefined ? "the name of a setting" : `the name of a setting, such as ${meant}`;
    throw invalid(`settings.${name}`, expected, name);
  }
}
