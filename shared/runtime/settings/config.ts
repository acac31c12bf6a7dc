// Settings: a pure function from a table of fields and an environment to a typed, frozen object. It is
// strict: a typing mistake stops the process instead of silently becoming a default. It reports every problem
// at once, so that five mistakes do not take five starts. An empty variable counts as unset.

import { exitCodes, StartupError } from "../process/startup.ts";
import type { Field } from "./setting-types.ts";

export type { Bounds, Field, FieldOptions } from "./setting-types.ts";
export {
  boolean,
  bytes,
  duration,
  integer,
  list,
  oneOf,
  optional,
  orOff,
  text,
  url,
} from "./setting-types.ts";

export type Fields = Readonly<Record<string, Field<unknown>>>;

/** The values that a table of fields yields: `ConfigOf<typeof fields>`. */
export type ConfigOf<F extends Fields> = {
  readonly [K in keyof F]: F[K] extends Field<infer T> ? T : never;
};

export type Environment = Readonly<Record<string, string | undefined>>;

export interface ConfigProblem {
  name: string;
  expected: string;
  got: string;
}

/** All problems of one environment; the message has one line for each and never contains a secret. */
export class ConfigError extends StartupError {
  override readonly name = "ConfigError";
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    const lines = problems.map(({ name, expected, got }) => `  ${name}: expected ${expected}; got ${got}`);
    super(["the settings are not usable:", ...lines].join("\n"), { exitCode: exitCodes.config });
    this.problems = problems;
  }
}

/** Throws ConfigError. */
export function readConfig<const F extends Fields>(fields: F, env: Environment): ConfigOf<F> {
  const problems: ConfigProblem[] = [];
  const config: Record<string, unknown> = {};
  for (const [key, field] of Object.entries(fields)) {
    const raw = env[field.name]?.trim() ?? "";
    const value = raw === "" ? field.default : field.parse(raw);
    if (value === undefined && (raw !== "" || field.required)) {
      problems.push({
        name: field.name,
        // An operator who does not know the setting must learn its purpose.
        expected: raw === "" ? `${field.type} (${field.description})` : field.type,
        got: raw === "" ? "nothing" : shown(raw, field),
      });
    }
    config[key] = value;
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze(config) as ConfigOf<F>;
}

function shown(raw: string, field: Field<unknown>): string {
  if (field.secret) return "another text, which is not shown because it may be a secret";
  const withoutPassword = raw.replace(/\/\/[^/@]*@/g, "//…@");
  return JSON.stringify(withoutPassword.length > 80 ? `${withoutPassword.slice(0, 80)}…` : withoutPassword);
}
