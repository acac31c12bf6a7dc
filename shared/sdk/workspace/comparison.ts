/**
 * `compareWorkspace()`: the differences between a workspace and its record in a checkpoint. `WORKSPACE_FINDINGS` has the rules and their
 * grades. The comparison only reports: it never resets, fetches or checks out anything, and never refuses.
 */
import { LIMITS } from "../../protocol/limits.ts";
import {
  WORKSPACE_FINDINGS,
  WORKSPACE_GRADES,
  type Workspace,
  type WorkspaceDrift,
  type WorkspaceFinding,
  type WorkspaceFindingKind,
} from "../../protocol/workspace.ts";
import { Fingerprints } from "./fingerprint.ts";
import { git } from "./git.ts";
import { findRepository, type Repository } from "./repository.ts";
import { resolveFolder } from "./snapshot.ts";

type File = NonNullable<Workspace["files"]>[number];

/** Throws INVALID if `folder` is not a folder. */
export async function compareWorkspace(recorded: Workspace, folder: string): Promise<WorkspaceDrift> {
  const path = await resolveFolder(folder);
  const found = await findRepository(path);
  const repository = "repository" in found ? found.repository : undefined;
  const findings = [
    ...("none" in found ? withoutRepository(recorded, found.none) : []),
    ...(repository === undefined ? [] : await repositoryFindings(recorded, repository)),
    ...(await fileFindings(recorded, repository, repository?.root ?? path)),
  ];
  const countMax = LIMITS.workspace_findings_count_max;
  const reported =
    findings.length <= countMax
      ? findings
      : [...byGrade(findings).slice(0, countMax - 1), finding("too_many")];
  const sorted = byGrade(reported);
  return { grade: sorted[0]?.grade ?? "ok", findings: sorted };
}

function finding(kind: WorkspaceFindingKind, about: Partial<WorkspaceFinding> = {}): WorkspaceFinding {
  return { kind, grade: WORKSPACE_FINDINGS[kind].grade, ...about };
}

const byGrade = (findings: readonly WorkspaceFinding[]): WorkspaceFinding[] =>
  findings.toSorted((a, b) => WORKSPACE_GRADES.indexOf(b.grade) - WORKSPACE_GRADES.indexOf(a.grade));

function withoutRepository(
  recorded: Workspace,
  none: "no_repository" | "no_git" | "unknown",
): WorkspaceFinding[] {
  const { repo } = recorded;
  if (repo === undefined && recorded.head === undefined) return [];
  const about = repo === undefined ? {} : { recorded: repo };
  return [finding(none === "no_repository" ? "repository_missing" : "git_unavailable", about)];
}

async function repositoryFindings(recorded: Workspace, now: Repository): Promise<WorkspaceFinding[]> {
  const { repo, branch, head } = recorded;
  const isHere = head !== undefined && isCommitName(head) && (await hasCommit(now.root, head));
  const unfinished = now.unfinished.map((operation) => finding("operation_unfinished", { found: operation }));
  if (repo !== undefined && repo !== now.repo && !isHere) {
    return [finding("repository_differs", { recorded: repo, found: now.repo }), ...unfinished];
  }
  const isSameHead = head === undefined || head === now.head;
  return [
    ...(repo !== undefined && repo !== now.repo
      ? [finding("repository_renamed", { recorded: repo, found: now.repo })]
      : []),
    ...(branch !== undefined && branch !== now.branch
      ? [
          finding(isSameHead ? "branch_renamed" : "branch_differs", {
            recorded: branch,
            found: now.branch ?? "no branch",
          }),
        ]
      : []),
    ...(head === undefined || isSameHead
      ? []
      : [finding(await headKind(now, head, isHere), { recorded: head, found: now.head ?? "no commit" })]),
    ...unfinished,
  ];
}

async function headKind(now: Repository, head: string, isHere: boolean): Promise<WorkspaceFindingKind> {
  if (!isHere) return "head_unknown";
  if (now.head === undefined) return "head_behind";
  const [advanced, behind] = await Promise.all([
    git(now.root, ["merge-base", "--is-ancestor", head, now.head]),
    git(now.root, ["merge-base", "--is-ancestor", now.head, head]),
  ]);
  if (advanced.ok) return "head_advanced";
  if (behind.ok) return "head_behind";
  return advanced.reason === "no" && behind.reason === "no" ? "head_diverged" : "git_unavailable";
}

/** `head` is from a checkpoint and may be any text, also one that git would read as an option. */
const isCommitName = (head: string): boolean => /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/.test(head);

const hasCommit = async (root: string, head: string): Promise<boolean> =>
  (await git(root, ["cat-file", "-e", `${head}^{commit}`])).ok;

async function fileFindings(
  recorded: Workspace,
  now: Repository | undefined,
  root: string,
): Promise<WorkspaceFinding[]> {
  const files = (recorded.files ?? []).slice(0, LIMITS.workspace_files_count_max);
  const dirtyBefore = new Set(recorded.dirty ?? []);
  const dirtyNow = new Set(now?.dirty ?? []);
  // After a new commit the change may be part of it. With the same HEAD, it was discarded.
  const isDiscarded = (path: string): boolean =>
    now !== undefined && dirtyBefore.has(path) && !dirtyNow.has(path) && recorded.head === now.head;

  const fingerprints = await Fingerprints.of(root);
  const findings: WorkspaceFinding[] = [];
  for (const file of files) {
    const kind = await fileKind(file, fingerprints, isDiscarded);
    if (kind !== undefined) findings.push(finding(kind, { path: file.path }));
  }
  const hashed = new Set(files.map(({ path }) => path));
  const discarded = [...dirtyBefore].filter((path) => !hashed.has(path) && isDiscarded(path));
  const isAllKnown = dirtyBefore.size < LIMITS.workspace_dirty_count_max;
  const isAllCompared = isAllKnown && files.length === (recorded.files ?? []).length;
  const added =
    isAllKnown && recorded.dirty !== undefined ? [...dirtyNow].filter((path) => !dirtyBefore.has(path)) : [];
  return [
    ...findings,
    ...discarded.map((path) => finding("file_discarded", { path })),
    ...added.filter((path) => !hashed.has(path)).map((path) => finding("file_dirty", { path })),
    ...(isAllCompared ? [] : [finding("too_many")]),
  ];
}

async function fileKind(
  { path, sha256, mtime }: File,
  fingerprints: Fingerprints,
  isDiscarded: (path: string) => boolean,
): Promise<WorkspaceFindingKind | undefined> {
  const fingerprint = await fingerprints.read(path);
  switch (fingerprint.kind) {
    case "outside":
      return "file_outside";
    case "missing":
      return "file_missing";
    case "file":
      if (sha256 === fingerprint.sha256) return undefined;
      if (isDiscarded(path)) return "file_discarded";
      if (sha256 !== undefined) return "file_changed";
      return isLater(fingerprint.mtime, mtime) ? "file_touched" : undefined;
    case "unread":
      if (isDiscarded(path)) return "file_discarded";
      if (sha256 !== undefined || fingerprint.mtime === undefined) return "file_unread";
      return isLater(fingerprint.mtime, mtime) ? "file_touched" : undefined;
  }
}

const isLater = (now: string, recorded: string | undefined): boolean =>
  recorded !== undefined && Date.parse(now) > Date.parse(recorded);
