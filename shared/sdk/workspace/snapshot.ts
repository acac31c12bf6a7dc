/** `takeWorkspace()`: what a checkpoint should say of the folder that its agent works in, so that a successor sees whether it still is so. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, join, relative } from "node:path";
import { invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Workspace } from "../../protocol/workspace.ts";
import { Fingerprints, isInside } from "./fingerprint.ts";
import { findRepository } from "./repository.ts";

export interface TakeWorkspaceOptions {
  /** Files to record beside those with uncommitted changes; relative to `folder`, or absolute. */
  readonly files?: readonly string[];
}

/**
 * Repository, branch, HEAD, uncommitted files, and the hashes of files: those of `files` and those uncommitted. Works without git and
 * outside of a repository; then there are only files. Paths are relative to the top of the repository, or else to `folder`. Changes
 * nothing. What is over the limits of `LIMITS.workspace_…` is left out.
 */
export async function takeWorkspace(folder: string, options: TakeWorkspaceOptions = {}): Promise<Workspace> {
  const place = await placeOf(folder);
  const found = await findRepository(place);
  const repository = "repository" in found ? found.repository : undefined;
  const root = repository === undefined ? place : await realpath(repository.root);
  const named = (options.files ?? []).map((path) =>
    relative(root, isAbsolute(path) ? path : join(place, path)),
  );
  const paths = [...new Set([...named.filter(isInside), ...(repository?.dirty ?? [])])];
  const files = await recorded(root, paths.slice(0, LIMITS.workspace_files_count_max));
  if (repository === undefined) return { files };
  const { repo, branch, head, dirty } = repository;
  return {
    repo,
    ...(branch !== undefined && { branch }),
    ...(head !== undefined && { head }),
    dirty: dirty.slice(0, LIMITS.workspace_dirty_count_max),
    files,
  };
}

/** The folder without links in its path. Throws INVALID when it is none. */
export async function placeOf(folder: string): Promise<string> {
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) throw invalid("folder", "a folder that exists", folder);
  return await realpath(folder);
}

async function recorded(root: string, paths: readonly string[]): Promise<NonNullable<Workspace["files"]>> {
  const fingerprints = await Fingerprints.of(root);
  const files: NonNullable<Workspace["files"]> = [];
  for (const path of paths) {
    const print = await fingerprints.read(path);
    if (print.kind === "file") files.push({ path, sha256: print.sha256, mtime: print.mtime });
    else if (print.kind === "unread")
      files.push({ path, ...(print.mtime !== undefined && { mtime: print.mtime }) });
  }
  return files;
}
