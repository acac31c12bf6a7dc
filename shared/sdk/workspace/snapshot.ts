/** `takeWorkspace()`: the record of an agent's folder in a checkpoint. The next agent compares its folder with it. */
import { realpath, stat } from "node:fs/promises";
import { isAbsolute, join, relative } from "node:path";
import { invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Workspace } from "../../protocol/workspace.ts";
import { Fingerprints, isInside, isShort } from "./fingerprint.ts";
import { findRepository } from "./repository.ts";

export interface TakeWorkspaceOptions {
  /** Files to record besides those with uncommitted changes; relative to `folder`, or absolute. */
  readonly files?: readonly string[];
}

/**
 * Records the repository, branch, HEAD, uncommitted files, and the hashes of the uncommitted files and of `files`. Without git, or
 * outside of a repository, it records files only. Paths are relative to the top of the repository, or else to `folder`. Files over the
 * limits of `LIMITS.workspace_…` are left out. Changes nothing.
 */
export async function takeWorkspace(folder: string, options: TakeWorkspaceOptions = {}): Promise<Workspace> {
  const path = await resolveFolder(folder);
  const found = await findRepository(path);
  const repository = "repository" in found ? found.repository : undefined;
  const root = repository === undefined ? path : await realpath(repository.root);
  const named = (options.files ?? []).map((file) =>
    relative(root, isAbsolute(file) ? file : join(path, file)),
  );
  const paths = [
    ...new Set([...named.filter((file) => isInside(file) && isShort(file)), ...(repository?.dirty ?? [])]),
  ];
  const files = await readFiles(root, paths.slice(0, LIMITS.workspace_files_count_max));
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

/** The path of a folder without links. Throws INVALID if it is not a folder. */
export async function resolveFolder(folder: string): Promise<string> {
  const isFolder = await stat(folder).then(
    (found) => found.isDirectory(),
    () => false,
  );
  if (!isFolder) throw invalid("folder", "a folder that exists", folder);
  return await realpath(folder);
}

async function readFiles(root: string, paths: readonly string[]): Promise<NonNullable<Workspace["files"]>> {
  const fingerprints = await Fingerprints.of(root);
  const files: NonNullable<Workspace["files"]> = [];
  for (const path of paths) {
    const fingerprint = await fingerprints.read(path);
    if (fingerprint.kind === "file") {
      files.push({ path, sha256: fingerprint.sha256, mtime: fingerprint.mtime });
    } else if (fingerprint.kind === "unread") {
      files.push({ path, ...(fingerprint.mtime !== undefined && { mtime: fingerprint.mtime }) });
    }
  }
  return files;
}
