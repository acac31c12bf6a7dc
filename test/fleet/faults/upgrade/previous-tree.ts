/**
 * The tree of the previous release, for upgrades and downgrades. Its files come from the objects of the repository, without a worktree, so
 * a killed run leaves nothing in the repository. A copy without these objects (a shallow clone, an archive) has no previous tree: there each
 * process is replaced by one of the same tree, which still shows that no stop loses a request.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { projectRoot } from "../../../harness/project-root.ts";

/**
 * The last commit of the previous release. To be set at each release. Never an earlier one than this: without `opening-lock.ts` the start of
 * a process can damage the store of the drill.
 */
export const PREVIOUS_RELEASE = "fd4acd51ddecc12a3d41e4c3cd31867f6edc11d4";

/** No script of a package runs, as in the image. */
const INSTALL = ["ci", "--omit=dev", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"];
const INSTALL_MS = 180_000;
const ARCHIVE_BYTES_MAX = 1024 ** 3;

export interface PreviousTree {
  readonly folder: string;
  /** The reason why the folder is this tree itself, in one line. Absent: it is the previous one. */
  readonly missing?: string;
  remove(): void;
}

export function openPreviousTree(commit = PREVIOUS_RELEASE): PreviousTree {
  if (!isInRepository(commit))
    return sameTree(`commit ${commit.slice(0, 12)} is not in this copy of the repository`);
  const folder = mkdtempSync(join(tmpdir(), "fleet-previous-"));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    const options = { cwd: projectRoot, maxBuffer: ARCHIVE_BYTES_MAX };
    const input = execFileSync("git", ["archive", "--format=tar", commit], options);
    execFileSync("tar", ["-x", "-C", folder], { input });
    const other = otherPackage(folder);
    if (other === undefined) symlinkSync(join(projectRoot, "node_modules"), join(folder, "node_modules"));
    else execFileSync("npm", INSTALL, { cwd: folder, stdio: "pipe", timeout: INSTALL_MS });
    return { folder, remove };
  } catch (error) {
    remove();
    return sameTree(
      `the previous tree cannot be made: ${String((error as Error).message).split("\n", 1)[0]}`,
    );
  }
}

function sameTree(missing: string): PreviousTree {
  return { folder: projectRoot, missing, remove: () => {} };
}

function isInRepository(commit: string): boolean {
  try {
    execFileSync("git", ["cat-file", "-e", `${commit}^{tree}`], { cwd: projectRoot, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

interface LockFile {
  readonly packages: Readonly<Record<string, { readonly version?: string; readonly dev?: boolean }>>;
}

/** The path of a package that the tree needs in another version than the one installed here. Further packages do no harm. */
function otherPackage(folder: string): string | undefined {
  const read = (root: string) =>
    JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as LockFile;
  const { packages: installed } = read(projectRoot);
  const wanted = Object.entries(read(folder).packages);
  return wanted.find(
    ([path, { version, dev }]) =>
      path.startsWith("node_modules/") && dev !== true && installed[path]?.version !== version,
  )?.[0];
}
