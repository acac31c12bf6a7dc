/** The demo's work: a survey of the code folders of this repository, with real files and real numbers. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

export interface FolderSurvey {
  readonly folder: string;
  readonly files: number;
  readonly lines: number;
  readonly exports: number;
  readonly longest: { readonly path: string; readonly lines: number };
  /** The characters of all files. */
  readonly characters: number;
}

/** An estimate of a model's tokens without its tokenizer. */
const CHARACTERS_PER_TOKEN = 4;
const EMPTY_FOLDER = "no code yet";

/** The folders with code, in the order of the survey. */
export async function foldersToSurvey(root: string): Promise<string[]> {
  const folders: string[] = [];
  for (const top of ["shared", "services"]) {
    const entries = await readdir(join(root, top), { withFileTypes: true });
    folders.push(...entries.filter((entry) => entry.isDirectory()).map((entry) => `${top}/${entry.name}`));
  }
  return folders.sort();
}

/** The surveys of all folders, largest first. */
export async function surveysBySize(root: string): Promise<FolderSurvey[]> {
  const found = await Promise.all((await foldersToSurvey(root)).map((folder) => surveyFolder(root, folder)));
  return found.sort((a, b) => b.characters - a.characters);
}

export async function surveyFolder(root: string, folder: string): Promise<FolderSurvey> {
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

/** The survey in one line, as an agent notes it. */
export function summaryOf({ files, lines, exports, longest }: FolderSurvey): string {
  return files === 0
    ? EMPTY_FOLDER
    : `${files} files, ${lines} lines, ${exports} exports; longest: ${longest.path} (${longest.lines} lines)`;
}

/** The notes of an item of an agent's work. */
export const notesOf = ({ notes }: { readonly title: string; readonly notes?: unknown }): string =>
  typeof notes === "string" ? notes : "";

/** Counts the longest file of a summary again: whether the summary is right, and how much was read. */
export async function recount(
  root: string,
  summary: string,
): Promise<{ isRight: boolean; characters: number }> {
  const [, path, lines] = /longest: (\S+) \((\d+) lines\)/.exec(summary) ?? [];
  if (path === undefined) return { isRight: summary === EMPTY_FOLDER, characters: 0 };
  const text = await readFile(join(root, path), "utf8");
  return { isRight: lineCount(text) === Number(lines), characters: text.length };
}

export const tokensOf = (characters: number): number => Math.ceil(characters / CHARACTERS_PER_TOKEN);

const lineCount = (text: string): number => text.split("\n").length;
