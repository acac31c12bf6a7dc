// The folder of this project: a checkout, or an installed package, whose compiled code is one folder deeper, in dist.

import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

// Node resolves symbolic links in module URLs, so a link on PATH leads here too.
const folder = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const isCompiled = basename(folder) === "dist" && !existsSync(join(folder, "package.json"));

/** The folder of package.json. */
export const root = isCompiled ? dirname(folder) : folder;

/** True for an installed package: it has compiled code and no sources. */
export const isPackage = (path) =>
  existsSync(join(path, "dist", "services")) && !existsSync(join(path, "services"));
