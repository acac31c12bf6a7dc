/** The settings of the runner. The agents that it starts are described in a file of their own. */
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import type { ExpectedFleet } from "../../shared/bus/server-name.ts";
import { tlsFields } from "../../shared/bus/tls-settings.ts";
import { type FieldProblem, FleetError } from "../../shared/protocol/errors.ts";
import { type RunnerSettings, runnerSettingsSchema } from "../../shared/protocol/runner-settings.ts";
import { validate } from "../../shared/protocol/validation.ts";
import {
  ConfigError,
  type ConfigOf,
  type ConfigProblem,
  type Environment,
  optional,
  readConfig,
  text,
} from "../../shared/runtime/settings/config.ts";
import { opsPortField, processFields } from "../../shared/runtime/settings/process-settings.ts";
import { withoutSchema } from "../../shared/runtime/settings/schema-member.ts";
import { discoverBus } from "../../shared/sdk/address.ts";
import { clientFields } from "../../shared/sdk/client/connect.ts";
import { homeField, homeOf } from "../../shared/sdk/fleet-home.ts";
import { programProblems } from "./programs.ts";

const FILE = "FLEET_RUNNER_CONFIG";
const NAME_CHARS = 40;

export const runnerFields = {
  settingsFile: text(FILE, {
    description: "File with the agents that the runner starts, as in services/runner/README.md; JSON",
  }),
  runnerName: optional(
    text("FLEET_RUNNER_NAME", {
      description: "Name of the runner; it must be the same after a restart",
      defaultNote: "the host name",
    }),
  ),
  runnerDir: optional(
    text("FLEET_RUNNER_DIR", {
      description: "Folder of the runner's records of its agents",
      defaultNote: "`<FLEET_HOME>/runner`",
    }),
  ),
} as const;

/** All settings of the process. */
export const runnerProcessFields = {
  ...processFields,
  opsPort: opsPortField(4281),
  tenant: clientFields.tenant,
  home: homeField,
  spoolDir: clientFields.spoolDir,
  spoolKeys: clientFields.spoolKeys,
  busCredentials: clientFields.busCredentials,
  busTokenFile: clientFields.busTokenFile,
  ...tlsFields,
  ...runnerFields,
} as const;

export interface RunnerConfig
  extends Omit<ConfigOf<typeof runnerProcessFields>, "home" | "spoolDir" | "runnerName" | "runnerDir"> {
  readonly busUrl: string;
  /** The fleet that must answer there. Absent: any may. */
  readonly expected?: ExpectedFleet | undefined;
  /** The folder of the fleet on this machine. */
  readonly home: string;
  readonly runnerName: string;
  /** Absolute. */
  readonly runnerDir: string;
  /** The folder of the agents' spools. Absolute. undefined: the one of the fleet in this user's state. */
  readonly spoolDir: string | undefined;
  readonly settings: RunnerSettings;
}

/** Throws ConfigError with every problem in the environment or in the file, or with every program that is missing. */
export function readRunnerConfig(env: Environment): RunnerConfig {
  const config = readConfig(runnerProcessFields, env);
  const settings = readRunnerSettings(config.settingsFile);
  const missing = programProblems(settings, env, FILE);
  if (missing.length > 0) throw new ConfigError(missing);
  const runnerName = config.runnerName ?? hostname();
  const home = homeOf(env);
  const { url, expected } = discoverBus(env);
  return {
    ...config,
    home,
    busUrl: url,
    expected,
    runnerName: runnerName.replace(/[^A-Za-z0-9_-]/g, "-").slice(0, NAME_CHARS),
    runnerDir: resolve(config.runnerDir ?? join(home, "runner")),
    spoolDir: config.spoolDir === undefined ? undefined : resolve(config.spoolDir),
    settings,
  };
}

/** Throws ConfigError. */
export function readRunnerSettings(path: string): RunnerSettings {
  try {
    return validate(runnerSettingsSchema, withoutSchema(JSON.parse(readFileSync(path, "utf8"))));
  } catch (error) {
    throw new ConfigError(problemsOf(path, error));
  }
}

function problemsOf(path: string, error: unknown): ConfigProblem[] {
  if (error instanceof FleetError) return error.fields.map((problem) => inFile(path, problem));
  if (error instanceof SyntaxError) return [{ name: FILE, expected: `JSON in ${path}`, got: error.message }];
  const { code } = error as NodeJS.ErrnoException;
  if (code === undefined) throw error;
  return [{ name: FILE, expected: "a file that can be read", got: `${path}: ${code}` }];
}

function inFile(path: string, { path: field, expected, got }: FieldProblem): ConfigProblem {
  return { name: `${FILE}: ${field === "" ? path : field}`, expected, got: got ?? "something else" };
}
