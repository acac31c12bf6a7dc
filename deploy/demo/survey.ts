/** The demo's work: surveys one folder of this repository. Real reading, real numbers; nothing is made up. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export interface Finding {
  readonly folder: string;
  readonly files: number;
  readonly lines: number;
  readonly exports: number;
  readonly longest: { readonly path: string; readonly lines: number };
}

/** Folders of the repository that hold code, in the order in which they are surveyed. */
export async function foldersToSurvey(root: string): Promise<string[]> {
  const folders: string[] = [];
  for (const top of ["shared", "services"]) {
    const entries = await readdir(join(root, top), { withFileTypes: true });
    folders.push(...entries.filter((entry) => entry.isDirectory()).map((entry) => `${top}/${entry.name}`));
  }
  return folders.sort();
}

export async function survey(root: string, folder: string): Promise<Finding> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
  let lines = 0;
  let exports = 0;
  let files = 0;
  let longest = { path: "", lines: 0 };
  for (const entry of entries) {
    if (!entry.isFile() || !entry.name.endsWith(".ts")) continue;
    const path = join(entry.parentPath, entry.name);
    const text = await readFile(path, "utf8");
    const count = text.split("\n").length;
    files += 1;
    lines += count;
    exports += text.match(/^export /gm)?.length ?? 0;
    if (count > longest.lines) longest = { path: path.slice(join(root, "/").length), lines: count };
  }
  return { folder, files, lines, exports, longest };
}

export function sentence({ files, lines, exports, longest }: Finding): string {
  return files === 0
    ? "no code yet"
    : `${files} files, ${lines} lines, ${exports} exports; longest: ${longest.path} (${longest.lines} lines)`;
}
