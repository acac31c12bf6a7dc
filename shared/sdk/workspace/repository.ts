// The git repository of a folder.

import { access } from "node:fs/promises";
import { join } from "node:path";
import { isShort } from "./fingerprint.ts";
import { git } from "./git.ts";

export interface Repository {
  /** The top folder of the working tree; paths are relative to it. */
  readonly root: string;
  /** The origin's address without credentials, else the path of the repository. */
  readonly repo: string;
  /** Absent if no branch is checked out. */
  readonly branch?: string;
  /** Absent before the first commit. */
  readonly head?: string;
  /** Paths with uncommitted changes, including untracked files; sorted. */
  readonly dirty: readonly string[];
  /** Operations that were begun and not finished, such as a merge or a rebase. */
  readonly unfinished: readonly string[];
}

/** `no_git`: git is not installed. `unknown`: git does not answer. */
export type RepositoryLookup =
  | { readonly repository: Repository }
  | { readonly none: "no_repository" | "no_git" | "unknown" };

export async function findRepository(folder: string): Promise<RepositoryLookup> {
  const paths = await git(folder, [
    "rev-parse",
    "--path-format=absolute",
    "--show-toplevel",
    "--git-common-dir",
    "--absolute-git-dir",
  ]);
  if (!paths.ok) {
    if (paths.reason === "missing") return { none: "no_git" };
    return { none: paths.reason === "no_repository" ? "no_repository" : "unknown" };
  }
  const [root = "", common = "", gitFolder = ""] = paths.out.split("\n");
  const [status, origin, unfinished] = await Promise.all([
    git(root, STATUS),
    git(root, ["config", "--get", "remote.origin.url"]),
    unfinishedIn(gitFolder),
  ]);
  if (!status.ok) return { none: "unknown" };
  const address = origin.ok ? origin.out.trim() : "";
  const repo = address === "" ? common.replace(/\/\.git$/, "") : plainAddress(address);
  return { repository: { root, repo, ...readStatus(status.out), unfinished } };
}

const STATUS = [
  "status",
  "--porcelain=v2",
  "--branch",
  "-z",
  "--no-renames",
  "--untracked-files=all",
  "--ignore-submodules=dirty",
];

/** The number of words before the path in each kind of entry. */
const WORDS_BEFORE_PATH: Readonly<Record<string, number>> = { "1": 8, "2": 9, u: 10, "?": 1 };

export function readStatus(out: string): Pick<Repository, "branch" | "head" | "dirty"> {
  const entries = out.split("\0").filter((entry) => entry !== "");
  const header = (name: string) =>
    entries.find((entry) => entry.startsWith(`# ${name} `))?.slice(name.length + 3);
  const branch = header("branch.head");
  const head = header("branch.oid");
  const dirty = entries.flatMap((entry) => {
    const words = WORDS_BEFORE_PATH[entry[0]!];
    return words === undefined ? [] : [entry.split(" ").slice(words).join(" ")];
  });
  return {
    ...(branch !== undefined && branch !== "(detached)" && { branch }),
    ...(head !== undefined && head !== "(initial)" && { head }),
    dirty: dirty.filter(isShort).sort(),
  };
}

/** One name for a repository, over any protocol of its clone. A password in the address is removed. */
export function plainAddress(address: string): string {
  const url = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/@]*@)?([^/]*)\/*(.*)$/i.exec(address);
  const scp = /^(?:[^/@:]+@)?([^/:]+):(?!\\)\/*(.*)$/.exec(address);
  const [, host, path] = url ?? scp ?? [];
  const whole = host === undefined || host === "" ? (path ?? address) : `${host.toLowerCase()}/${path}`;
  return whole.replace(/\/+$/, "").replace(/\.git$/, "");
}

const OPERATIONS: Readonly<Record<string, string>> = {
  MERGE_HEAD: "merge",
  "rebase-merge": "rebase",
  "rebase-apply": "rebase",
  CHERRY_PICK_HEAD: "cherry-pick",
  REVERT_HEAD: "revert",
  BISECT_LOG: "bisect",
};

async function unfinishedIn(gitFolder: string): Promise<string[]> {
  const marks = await Promise.all(
    Object.entries(OPERATIONS).map(async ([mark, operation]) =>
      (await exists(join(gitFolder, mark))) ? [operation] : [],
    ),
  );
  return [...new Set(marks.flat())];
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
