/** Packages that an installation may lack, because only some settings need them. */
import { exitCodes, StartupError } from "./startup.ts";

const MISSING = new Set(["ERR_MODULE_NOT_FOUND", "MODULE_NOT_FOUND"]);

/**
 * Loads packages with `load`. Throws a StartupError with the command that installs them, if one is missing.
 * @param purpose what needs them, as the subject of a sentence
 */
export async function loadOptional<T>(
  purpose: string,
  packages: readonly string[],
  load: () => Promise<T>,
): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if (!MISSING.has((error as NodeJS.ErrnoException).code ?? "")) throw error;
    throw new StartupError(`${purpose} needs a package that is not installed`, {
      exitCode: exitCodes.unavailable,
      details: { packages: packages.join(" ") },
      hint: `run: npm install ${packages.join(" ")}`,
      cause: error,
    });
  }
}
