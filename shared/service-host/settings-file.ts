/**
 * Settings that are too large for variables: a JSON file that a variable names, read once, at the start. A
 * mistake in it stops the process, which reports every wrong field, instead of silently becoming a default.
 */
import { readFileSync, statSync } from "node:fs";
import { parseJson } from "../integrity/json.ts";
import { type FieldProblem, FleetError } from "../protocol/errors.ts";
import { type OutputOf, type Schema, validate } from "../protocol/validation.ts";
import { ConfigError, type ConfigProblem } from "../runtime/settings/config.ts";
import { withMeantField } from "../runtime/settings/meant-field.ts";
import { withoutSchema } from "../runtime/settings/schema-member.ts";

const BYTES_MAX = 4 * 1_024 * 1_024;

export interface SettingsFile {
  /** The variable that names the file. */
  readonly name: string;
  readonly path: string;
  /** The fields whose values are not shown. */
  readonly secret?: RegExp;
}

/** Throws ConfigError with every wrong field. */
export function readSettingsFile<S extends Schema>(file: SettingsFile, schema: S): OutputOf<S> {
  try {
    return validate(schema, withoutSchema(parseJson(settingsBytes(file))));
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    throw new ConfigError(error.fields.map((problem) => inFile(file, withMeantField(problem, schema))));
  }
}

/** A regular file of bounded size. Throws ConfigError. */
export function settingsBytes({ name, path }: Pick<SettingsFile, "name" | "path">): Buffer {
  try {
    const file = statSync(path);
    // A read from a pipe would wait for its writer, for ever.
    if (!file.isFile())
      throw new ConfigError([{ name, expected: "a file", got: `something else at ${path}` }]);
    if (file.size > BYTES_MAX) {
      const expected = `a file of at most ${BYTES_MAX} bytes`;
      throw new ConfigError([{ name, expected, got: `${path}: ${file.size} bytes` }]);
    }
    return readFileSync(path);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError([{ name, ...unreadable(path, error) }]);
  }
}

/** The problem of a file that cannot be read. */
export function unreadable(path: string, error: unknown): Omit<ConfigProblem, "name"> {
  const got = `${path}: ${(error as NodeJS.ErrnoException).code}`;
  return { expected: "a file that can be read", got };
}

/** The problem of one field of the file, or of the whole file. */
export function inFile(
  { name, path, secret }: SettingsFile,
  { path: field, expected, got = "something else" }: FieldProblem,
): ConfigProblem {
  const isSecret = secret?.test(field) === true && got !== "nothing";
  return {
    name: `${name}: ${field === "" ? path : field}`,
    expected,
    got: isSecret ? "something else" : got,
  };
}
