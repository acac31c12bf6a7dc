import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { workspaceSchema } from "../../../../shared/protocol/checkpoint.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { Workspace } from "../../../../shared/protocol/workspace.ts";
import { compareWorkspace } from "../../../../shared/sdk/workspace/comparison.ts";
import { plainAddress, readStatus } from "../../../../shared/sdk/workspace/repository.ts";
import { takeWorkspace } from "../../../../shared/sdk/workspace/snapshot.ts";
import {
  commit,
  emptyFolder,
  hashOfFolder,
  newRepository,
  removeFolders,
  run,
  write,
} from "./repositories.ts";

const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");

afterEach(removeFolders);

/** The findings in short form. */
async function compared(recorded: Workspace, folder: string) {
  const { grade, findings } = await compareWorkspace(recorded, folder);
  return { grade, found: findings.map(({ kind, path }) => (path === undefined ? kind : `${kind} ${path}`)) };
}

describe("a record", () => {
  test("has the repository, branch, HEAD, uncommitted files and hashes", async () => {
    const folder = newRepository("https://bot:hunter2hunter2@git.example.com/team/app.git");
    write(folder, "src/a.ts", "export const a = 2;\n");
    write(folder, "new file.ts", "new\n");
    write(folder, "README.md", "read me\n");
    run(folder, "add", "README.md");
    const taken = await takeWorkspace(join(folder, "src"), {
      files: ["a.ts", "gone.ts", "../../elsewhere.ts"],
    });
    expect(taken).toEqual({
      repo: "git.example.com/team/app",
      branch: "main",
      head: run(folder, "rev-parse", "HEAD"),
      dirty: ["README.md", "new file.ts", "src/a.ts"],
      files: [
        { path: "src/a.ts", sha256: sha256("export const a = 2;\n"), mtime: expect.any(String) },
        { path: "README.md", sha256: sha256("read me\n"), mtime: expect.any(String) },
        { path: "new file.ts", sha256: sha256("new\n"), mtime: expect.any(String) },
      ],
    });
    expect(workspaceSchema.parse(taken)).toEqual(taken);
  });

  test("has no path that is too long, so that names in a repository cannot fill a checkpoint", async () => {
    const folder = newRepository();
    const long = Array.from({ length: 5 }, () => "d".repeat(150)).join("/");
    for (const path of [`${long}/a`, "\u0001".repeat(120), "short"]) write(folder, path, "");
    const taken = await takeWorkspace(folder, { files: [`${long}/a`, "short"] });
    expect(taken.dirty).toEqual(["short"]);
    expect(taken.files?.map(({ path }) => path)).toEqual(["short"]);
    expect(await compared(taken, folder)).toEqual({ grade: "ok", found: [] });
  });

  test("has no branch on a detached HEAD, and no HEAD before the first commit", async () => {
    const folder = newRepository();
    run(folder, "checkout", "--quiet", "--detach");
    expect(await takeWorkspace(folder)).not.toHaveProperty("branch");
    const empty = emptyFolder();
    run(empty, "init", "--quiet", "--initial-branch", "main");
    expect(await takeWorkspace(empty)).toEqual({ repo: empty, branch: "main", dirty: [], files: [] });
  });

  test("has only files outside of a repository", async () => {
    const folder = emptyFolder();
    write(folder, "notes.txt", "notes");
    expect(await takeWorkspace(folder, { files: [join(folder, "notes.txt")] })).toEqual({
      files: [{ path: "notes.txt", sha256: sha256("notes"), mtime: expect.any(String) }],
    });
  });

  test("has only files if git is not installed", async () => {
    const folder = newRepository();
    const before = await takeWorkspace(folder, { files: ["src/a.ts"] });
    const path = process.env.PATH;
    process.env.PATH = emptyFolder();
    try {
      expect(await takeWorkspace(folder, { files: ["src/a.ts"] })).toEqual({ files: before.files });
      expect(await compared(before, folder)).toEqual({ grade: "drift", found: ["git_unavailable"] });
    } finally {
      process.env.PATH = path;
    }
  });

  test("has nothing of a repository that the environment names", async () => {
    const [folder, other] = [newRepository(), newRepository("https://git.example.com/other.git")];
    process.env.GIT_DIR = join(other, ".git");
    try {
      expect((await takeWorkspace(folder)).repo).toBe("git.example.com/team/app");
    } finally {
      delete process.env.GIT_DIR;
    }
  });

  test("follows no link, waits for no pipe and reads no large file", async () => {
    const [folder, outside] = [newRepository(), emptyFolder()];
    write(outside, "secret.txt", "secret");
    symlinkSync(join(outside, "secret.txt"), join(folder, "link"));
    symlinkSync(outside, join(folder, "way-out"));
    execFileSync("mkfifo", [join(folder, "pipe")]);
    writeFileSync(join(folder, "large"), Buffer.alloc(LIMITS.workspace_file_bytes_max + 1));
    const { files = [] } = await takeWorkspace(folder, { files: ["pipe", "way-out/secret.txt"] });
    expect(files.map(({ path, sha256: hash }) => [path, hash])).toEqual([
      ["pipe", undefined],
      ["large", undefined],
      ["link", undefined],
      ["way-out", undefined],
    ]);
  });

  test("has at most the number of files in the limits", async () => {
    const folder = newRepository();
    for (let at = 0; at < LIMITS.workspace_dirty_count_max + 20; at += 1) write(folder, `many/${at}`, "x");
    const taken = await takeWorkspace(folder);
    expect(taken.dirty).toHaveLength(LIMITS.workspace_dirty_count_max);
    expect(taken.files).toHaveLength(LIMITS.workspace_files_count_max);
    expect(await compared(taken, folder)).toEqual({ grade: "drift", found: ["too_many"] });
  });

  test("needs a folder that exists", async () => {
    const gone = join(emptyFolder(), "gone");
    await expect(takeWorkspace(gone)).rejects.toMatchObject({
      code: "INVALID",
      fields: [{ path: "folder" }],
    });
    await expect(compareWorkspace({}, gone)).rejects.toMatchObject({ code: "INVALID" });
  });
});

describe("a comparison", () => {
  async function recordedIn(folder: string, ...files: string[]) {
    return await takeWorkspace(folder, { files });
  }

  test("ok: nothing has changed, with uncommitted work", async () => {
    const folder = newRepository();
    write(folder, "src/b.ts", "b");
    expect(await compared(await recordedIn(folder, "src/a.ts"), folder)).toEqual({ grade: "ok", found: [] });
  });

  test("ok: in another working tree of the repository, and in another clone", async () => {
    const folder = newRepository("");
    const recorded = await recordedIn(folder, "src/a.ts");
    run(folder, "branch", "--quiet", "aside");
    const beside = join(emptyFolder(), "beside");
    run(folder, "worktree", "add", "--quiet", "--force", beside, "main");
    expect(await compared(recorded, beside)).toEqual({ grade: "ok", found: [] });
    const clone = emptyFolder();
    run(clone, "clone", "--quiet", folder, ".");
    expect(await compared(recorded, clone)).toEqual({ grade: "ok", found: [] });
  });

  test("ok: the uncommitted work was committed, so HEAD has advanced", async () => {
    const folder = newRepository();
    write(folder, "src/b.ts", "b");
    const recorded = await recordedIn(folder);
    commit(folder, "src/b.ts", "b");
    expect(await compared(recorded, folder)).toEqual({ grade: "drift", found: ["head_advanced"] });
  });

  test("drift: HEAD advanced, files changed, new uncommitted files", async () => {
    const folder = newRepository();
    const recorded = await recordedIn(folder, "src/a.ts");
    commit(folder, "src/c.ts", "c");
    write(folder, "src/a.ts", "changed");
    write(folder, "src/d.ts", "d");
    expect(await compared(recorded, folder)).toEqual({
      grade: "drift",
      found: ["head_advanced", "file_changed src/a.ts", "file_dirty src/d.ts"],
    });
  });

  test("drift: another branch at the same commit", async () => {
    const folder = newRepository();
    const recorded = await recordedIn(folder);
    run(folder, "checkout", "--quiet", "-b", "feature");
    expect(await compareWorkspace(recorded, folder)).toEqual({
      grade: "drift",
      findings: [{ kind: "branch_renamed", grade: "drift", recorded: "main", found: "feature" }],
    });
  });

  test("drift: the origin of the repository was renamed", async () => {
    const folder = newRepository();
    const recorded = await recordedIn(folder);
    run(folder, "remote", "set-url", "origin", "git@elsewhere.example.com:team/app.git");
    expect(await compared(recorded, folder)).toEqual({ grade: "drift", found: ["repository_renamed"] });
  });

  test("drift: a file without a hash was written", async () => {
    const folder = emptyFolder();
    write(folder, "large", "x");
    utimesSync(join(folder, "large"), new Date("2026-01-02T00:00:00Z"), new Date("2026-01-02T00:00:00Z"));
    const file = { path: "large" };
    expect(await compared({ files: [{ ...file, mtime: "2026-01-01T00:00:00Z" }] }, folder)).toEqual({
      grade: "drift",
      found: ["file_touched large"],
    });
    expect(await compared({ files: [{ ...file, mtime: "2026-01-02T01:00:00+01:00" }] }, folder)).toEqual({
      grade: "ok",
      found: [],
    });
  });

  test("conflict: another branch at another commit", async () => {
    const folder = newRepository();
    const recorded = await recordedIn(folder);
    run(folder, "checkout", "--quiet", "-b", "feature");
    commit(folder, "src/f.ts", "f");
    expect(await compared(recorded, folder)).toEqual({
      grade: "conflict",
      found: ["branch_differs", "head_advanced"],
    });
  });

  test("conflict: HEAD is behind or diverged, or the commit is unknown", async () => {
    const folder = newRepository();
    const first = run(folder, "rev-parse", "HEAD");
    commit(folder, "src/b.ts", "b");
    const recorded = await recordedIn(folder);
    run(folder, "reset", "--quiet", "--hard", first);
    expect(await compared(recorded, folder)).toEqual({ grade: "conflict", found: ["head_behind"] });
    commit(folder, "src/c.ts", "c");
    expect(await compared(recorded, folder)).toEqual({ grade: "conflict", found: ["head_diverged"] });
    const unknown = { ...recorded, head: "0".repeat(40) };
    expect(await compared(unknown, folder)).toEqual({ grade: "conflict", found: ["head_unknown"] });
    const option = { ...recorded, head: "--output=/tmp/x" };
    expect(await compared(option, folder)).toEqual({ grade: "conflict", found: ["head_unknown"] });
  });

  test("conflict: another repository, or no repository", async () => {
    const recorded = await recordedIn(newRepository());
    const other = newRepository("https://git.example.com/team/other.git");
    expect(await compared(recorded, other)).toEqual({ grade: "conflict", found: ["repository_differs"] });
    expect(await compared(recorded, emptyFolder())).toEqual({
      grade: "conflict",
      found: ["repository_missing"],
    });
  });

  test("conflict: uncommitted work was discarded, or a file removed", async () => {
    const folder = newRepository();
    commit(folder, "src/b.ts", "b");
    write(folder, "src/a.ts", "work");
    rmSync(join(folder, "src/b.ts"));
    write(folder, "src/c.ts", "c");
    const recorded = await recordedIn(folder);
    run(folder, "checkout", "--quiet", ".");
    rmSync(join(folder, "src/c.ts"));
    expect(await compared(recorded, folder)).toEqual({
      grade: "conflict",
      found: ["file_discarded src/a.ts", "file_missing src/c.ts", "file_discarded src/b.ts"],
    });
  });

  test("conflict: a merge is unfinished", async () => {
    const folder = newRepository();
    run(folder, "checkout", "--quiet", "-b", "feature");
    commit(folder, "src/a.ts", "feature");
    run(folder, "checkout", "--quiet", "main");
    commit(folder, "src/a.ts", "main");
    const recorded = await recordedIn(folder);
    expect(() => run(folder, "merge", "feature")).toThrow();
    const { grade, findings } = await compareWorkspace(recorded, folder);
    expect(grade).toBe("conflict");
    expect(findings).toContainEqual({ kind: "operation_unfinished", grade: "conflict", found: "merge" });
  });

  test("opens no path outside of the workspace", async () => {
    const [folder, outside] = [emptyFolder(), emptyFolder()];
    write(outside, "secret.txt", "secret");
    symlinkSync(outside, join(folder, "way-out"));
    const paths = ["/etc/passwd", "../secret.txt", "way-out/secret.txt", "a/../../b", "x\0y"];
    const files = paths.map((path) => ({ path, sha256: sha256("secret") }));
    expect(await compared({ files }, folder)).toEqual({
      grade: "drift",
      found: paths.map((path) => `file_outside ${path}`),
    });
  });

  test("finds nothing without a record", async () => {
    expect(await compared({}, newRepository())).toEqual({ grade: "ok", found: [] });
  });
});

test("recording and comparing change no byte, although git status would", async () => {
  const folder = newRepository();
  write(folder, "src/new.ts", "new");
  mkdirSync(join(folder, "empty"));
  const recorded = await takeWorkspace(folder);
  // The same content with another time: git status would update its index.
  utimesSync(join(folder, "src/a.ts"), new Date(1_000_000), new Date(1_000_000));
  const before = hashOfFolder(folder);
  await takeWorkspace(folder, { files: ["src/a.ts"] });
  await compareWorkspace({ ...recorded, head: "1".repeat(40), branch: "other" }, folder);
  expect(hashOfFolder(folder)).toBe(before);
  run(folder, "status");
  expect(hashOfFolder(folder)).not.toBe(before);
});

test("a program in the git settings of the repository is not started", async () => {
  const folder = newRepository();
  const mark = join(emptyFolder(), "started");
  run(folder, "config", "core.fsmonitor", `touch ${mark} #`);
  await takeWorkspace(folder);
  expect(() => execFileSync("test", ["-e", mark])).toThrow();
  run(folder, "status");
  execFileSync("test", ["-e", mark]);
});

test.each([
  ["https://git.example.com/team/app.git", "git.example.com/team/app"],
  ["https://user:password@Git.Example.com/team/app", "git.example.com/team/app"],
  ["ssh://git@git.example.com/team/app.git/", "git.example.com/team/app"],
  ["git@git.example.com:team/app.git", "git.example.com/team/app"],
  ["git.example.com:team/app", "git.example.com/team/app"],
  ["file:///srv/git/app.git", "srv/git/app"],
  ["/srv/git/app.git", "/srv/git/app"],
  ["../app", "../app"],
])("the plain form of the address %s is %s", (address, plain) => expect(plainAddress(address)).toBe(plain));

test("git's status is read for any file name", () => {
  const hashes = "1".repeat(40);
  const out = [
    `# branch.oid ${hashes}`,
    "# branch.head feature/x",
    `1 .M N... 100644 100644 100644 ${hashes} ${hashes} a file\nwith lines`,
    `u UU N... 100644 100644 100644 100644 ${hashes} ${hashes} ${hashes} both sides`,
    "? -rf",
    "",
  ].join("\0");
  expect(readStatus(out)).toEqual({
    branch: "feature/x",
    head: hashes,
    dirty: ["-rf", "a file\nwith lines", "both sides"],
  });
});
