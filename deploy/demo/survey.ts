/** The demo's work: surveys one folder of this repository. Real reading, real numbers; nothing is made up. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export interface Finding {
  readonly folder: string;
  readonly files: number;
  readonly lines: number;
  readonly exports: number;
  readonly longest: { readonly path: string; readonly lines: number };
  /** Of all that was read. */
  readonly characters: number;
}

/** What one token is taken for, where nobody counts as a model does. */
const CHARACTERS_A_TOKEN = 4;

/** Folders of the repository that hold code, in the order in which they are surveyed. */
export async function foldersToSurvey(root: string): Promise<string[]> {
  const folders: string[] = [];
  for (const top of ["shared", "services"]) {
    const entries = await readdir(join(root, top), { withFileTypes: true });
    folders.push(...entries.filter((entry) => entry.isDirectory()).map((entry) => `${top}/${entry.name}`));
  }
  return folders.sort();
}

/** All of them, those with the most to read first. */
export async function bySize(root: string): Promise<Finding[]> {
  const found = await Promise.all((await foldersToSurvey(root)).map((folder) => survey(root, folder)));
  return found.sort((a, b) => b.characters - a.characters);
}

export async function survey(root: string, folder: string): Promise<Finding> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
  let [lines, exports, files, characters] = [0, 0, 0, 0];
  let longest = { path: "", lines: 0 };
  for (const entry of entries) {
    if (!entry.isFile() || !entry.name.endsWith(".ts")) continue;
    const path = join(entry.parentPath, entry.name);
    const text = await readFile(path, "utf8");
    const count = lineCount(text);
    files += 1;
    lines += count;
    characters += text.length;
    exports += text.match(/^export /gm)?.length ?? 0;
    if (count > longest.lines) longest = { path: path.slice(join(root, "/").length), lines: count };
  }
  return { folder, files, lines, exports, longest, characters };
}

export function sentence({ files, lines, exports, longest }: Finding): string {
  return files === 0
    ? "no code yet"
    : `${files} files, ${lines} lines, ${exports} exports; longest: ${longest.path} (${longest.lines} lines)`;
}

/** What an agent noted of an item of its work. */
export const notesOf = ({ notes }: { readonly title: string; readonly notes?: unknown }): string =>
  typeof notes === "string" ? notes : "";

/** Reads again what a sentence says of the longest file: whether that is so, and how much reading that was. */
export async function review(root: string, said: string): Promise<{ agrees: boolean; characters: number }> {
  const [, path, lines] = /longest: (\S+) \((\d+) lines\)/.exec(said) ?? [];
  if (path === undefined) return { agrees: said === "no code yet", characters: 0 };
  const text = await readFile(join(root, path), "utf8");
  return { agrees: lineCount(text) === Number(lines), characters: text.length };
}

export const tokensOf = (characters: number): number => Math.ceil(characters / CHARACTERS_A_TOKEN);

const lineCount = (text: string): number => text.split("\n").length;
