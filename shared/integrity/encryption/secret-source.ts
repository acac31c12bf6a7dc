/**
 * Secrets that lie on this machine: in a file that only its owner reads, or in a variable of the environment. Errors name the place of a
 * secret and what is wrong with it, never a part of it.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";
import { EXPOSED_KEY_MODE } from "../../protocol/signing-keys.ts";
import { exitCodes, StartupError } from "../../runtime/process/startup.ts";
import type { Environment } from "../../runtime/settings/config.ts";

const ROOT_USER = 0;
/** A secret has at most some thousand characters; another file was named by mistake. */
const FILE_BYTES_MAX = 65_536;

export interface SecretPlace {
  /** The setting that names the place. */
  readonly setting: string;
  /** The place as the setting names it. */
  readonly source: string;
}

/**
 * The text of a file, without the white space around it. A link is followed, as container platforms mount secrets through links; what it leads to must
 * belong to this user or to root, and be closed to others. Throws StartupError.
 */
export function readSecretFile(path: string, place: SecretPlace): string {
  try {
    // Without O_NONBLOCK a pipe in the place of the file would stop the process.
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      requirePrivate(file);
      return readFileSync(file, "utf8").trim();
    } finally {
      closeSync(file);
    }
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    const expected = "a file with mode 0600 of this user";
    const facts = { file: path, expected, problem };
    const hint =
      error instanceof ExposedFile ? `close the file to others with: chmod 600 ${path}` : undefined;
    throw refusedSecret("a secret cannot be read from its file", place, facts, hint);
  }
}

/** Other users can read the file, or write it. */
class ExposedFile extends Error {}

function requirePrivate(file: number): void {
  const stat = fstatSync(file);
  if (!stat.isFile()) throw new Error("it is no file");
  if (stat.size > FILE_BYTES_MAX) throw new Error(`it has ${stat.size} bytes`);
  if ((stat.mode & EXPOSED_KEY_MODE) !== 0)
    throw new ExposedFile(`its mode is ${(stat.mode & 0o777).toString(8)}`);
  const user = process.geteuid?.();
  if (user !== undefined && stat.uid !== user && stat.uid !== ROOT_USER)
    throw new Error(`its owner is the user ${stat.uid}`);
}

/** Throws StartupError for a variable that is not set. */
export function readSecretVariable(name: string, env: Environment, place: SecretPlace): string {
  const text = env[name]?.trim() ?? "";
  if (text !== "") return text;
  throw refusedSecret("a secret is not in the environment", place, {
    variable: name,
    problem: "it is not set",
  });
}

export function refusedSecret(
  message: string,
  { setting, source }: SecretPlace,
  facts: Readonly<Record<string, unknown>>,
  hint?: string,
): StartupError {
  return new StartupError(message, {
    exitCode: exitCodes.config,
    details: { setting, source, ...facts },
    ...(hint !== undefined && { hint }),
  });
}
