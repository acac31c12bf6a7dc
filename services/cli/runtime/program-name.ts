// The name by which this program is called, for every printed command: hints, examples, the next page. A command that
// the operator's shell does not find would be worse than none.

import { accessSync, constants } from "node:fs";
import { delimiter, join, sep } from "node:path";
import { packageRoot } from "../../../shared/runtime/process/installation.ts";
import type { ProcessContext } from "./process-context.ts";

/** `npx fleet` if npm started it, or if it runs from its own folder and `fleet` is not on the PATH; else `fleet`. */
export function programNameOf({ env, script }: Pick<ProcessContext, "env" | "script">): string {
  const npm = env.npm_command === "exec" || (env.npm_execpath ?? "") !== "";
  const ownFolder = script?.startsWith(`${packageRoot()}${sep}`) ?? false;
  return npm || (ownFolder && !isOnPath("fleet", env.PATH ?? "")) ? "npx fleet" : "fleet";
}

function isOnPath(name: string, path: string): boolean {
  return path.split(delimiter).some((folder) => folder !== "" && isExecutable(join(folder, name)));
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
