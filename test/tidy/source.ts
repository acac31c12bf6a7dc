// The input of the rules: the project's files, and a parsed view of the code.

import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { parseAst } from "vitest/node";

export interface File {
  /** The path relative to the project's folder, with slashes. */
  readonly path: string;
  readonly text: string;
}

/** A rule about all files. `broken` and `kept` are small projects that violate and follow it. */
export interface Rule {
  readonly name: string;
  /** Returns one message for each violation: the file, the problem and the remedy. */
  check(files: readonly File[]): string[];
  readonly broken: readonly File[];
  readonly kept: readonly File[];
}

export const file = (path: string, text = ""): File => ({ path, text });

/** All files that git tracks or would add; without git, all files that no run has produced. */
export function projectFiles(root: string): File[] {
  return paths(root)
    .filter((path) => existsSync(join(root, path)))
    .map((path) => file(path, readFileSync(join(root, path), "utf8")));
}

function paths(root: string): string[] {
  try {
    const args = ["-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    const listed = execFileSync("git", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    return [...new Set(listed.split("\0").filter(Boolean))];
  } catch {
    return readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => posix.relative(root, posix.join(entry.parentPath, entry.name)))
      .filter((path) => !/(^|\/)(node_modules|\.fleet|\.git|coverage)\//.test(path));
  }
}

export const isCode = ({ path }: File): boolean => /\.(ts|mts|mjs)$/.test(path) && !path.endsWith(".d.mts");
export const isProduction = (one: File): boolean =>
  isCode(one) && /^(services|shared|deploy)\//.test(one.path);
export const lineCount = (text: string): number => text.trimEnd().split("\n").length;

export interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

/** Visits every node of a file's syntax tree, parents first. */
export function visit(one: File, onNode: (node: Node, parent: Node | undefined) => void): void {
  const walk = (value: unknown, parent: Node | undefined): void => {
    if (Array.isArray(value)) for (const item of value) walk(item, parent);
    else if (isNode(value)) {
      onNode(value, parent);
      for (const child of Object.values(value)) walk(child, value);
    }
  };
  walk(tree(one), undefined);
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof (value as Node).type === "string";

const trees = new WeakMap<File, unknown>();
function tree(one: File): unknown {
  if (!trees.has(one)) trees.set(one, parseAst(one.text, { lang: one.path.endsWith("ts") ? "ts" : "js" }));
  return trees.get(one);
}

/** The text of every string and every fixed part of a template, including import paths. */
export function strings(one: File): string[] {
  const found: string[] = [];
  visit(one, (node) => {
    if (node.type === "Literal" && typeof node.value === "string") found.push(node.value);
    if (node.type === "TemplateElement") found.push((node.value as { raw: string }).raw);
  });
  return found;
}

/** The import specifiers of a file, including those of re-exports, types and dynamic imports. */
export function imports(one: File): string[] {
  const found: string[] = [];
  visit(one, (node) => {
    if (!/^(Import|Export|TSImport)/.test(node.type)) return;
    const source = (node.source ?? node.argument) as { value?: unknown } | null | undefined;
    if (typeof source?.value === "string") found.push(source.value);
  });
  return found;
}

/** The project path of a relative import. */
export const resolveImport = (from: File, specifier: string): string =>
  posix.join(posix.dirname(from.path), specifier);
