// The files of a new project, from a template. A template's names end with `.txt`, so that no tool takes it for a part of this program.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../../../../shared/runtime/process/installation.ts";
import { UsageError } from "../../runtime/usage.ts";

const ENDING = ".txt";

/** The paths of the files, relative to the folder. Throws UsageError, and has then written nothing. */
export function writeProject(kind: string, folder: string): string[] {
  const template = fileURLToPath(new URL(`../../templates/${kind}`, import.meta.url));
  const paths = readdirSync(template, { recursive: true, encoding: "utf8" })
    .filter((path) => path.endsWith(ENDING))
    .map((path) => path.slice(0, -ENDING.length))
    .sort();
  const inTheWay = paths.filter((path) => existsSync(join(folder, path)));
  if (inTheWay.length > 0)
    throw new UsageError(
      `${folder} has ${inTheWay.join(", ")} already`,
      "Name a new folder; nothing was written.",
    );
  const values = valuesOf(folder);
  const written: string[] = [];
  try {
    for (const path of paths) {
      const text = readFileSync(join(template, path + ENDING), "utf8");
      const target = join(folder, path);
      mkdirSync(dirname(target), { recursive: true });
      // A name that has appeared since is another program's file.
      writeFileSync(target, filled(text, values), { flag: "wx" });
      written.push(target);
    }
  } catch (error) {
    for (const path of written) rmSync(path, { force: true });
    throw new UsageError(
      `the project cannot be written: ${(error as Error).message}`,
      "Name a folder that you may write to; nothing was left there.",
    );
  }
  return paths;
}

/** The values of the placeholders `{{name}}`. */
function valuesOf(folder: string): Readonly<Record<string, string>> {
  const root = packageRoot();
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  return {
    ...devDependencies,
    name: packageName(basename(folder)),
    fleet: `file:${relative(folder, root) || "."}`,
  };
}

/** npm allows lower case, digits, dots, hyphens and underscores, and no dot or underscore at the beginning. */
function packageName(text: string): string {
  const name = text
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, "-")
    .replace(/^[._-]+/, "");
  return name || "project";
}

function filled(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\{\{([^}]+)\}\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`a template names ${name}, which has no value`);
    return value;
  });
}
