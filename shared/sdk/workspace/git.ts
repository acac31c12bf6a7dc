// Queries the machine's git. No shell, no lock, no write to the index, no network, no hook, no prompt, and a time limit.

import { execFile } from "node:child_process";
import { LIMITS } from "../../protocol/limits.ts";

export type GitAnswer =
  | { readonly ok: true; readonly out: string }
  /** `missing`: git is not installed. `no_repository`: not in a repository. `no`: exit code 1, the negative answer. */
  | { readonly ok: false; readonly reason: "missing" | "no_repository" | "no" | "failed" };

const SETTINGS = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false"];

/** Without the variables of a calling hook or git, which would select its own repository. */
function environment(): NodeJS.ProcessEnv {
  const foreign = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  return {
    ...Object.fromEntries(foreign),
    LC_ALL: "C",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_TERMINAL_PROMPT: "0",
    GIT_NO_LAZY_FETCH: "1",
    // No protocol has this name, so a partial clone fetches nothing.
    GIT_ALLOW_PROTOCOL: "none",
  };
}

/** `folder` must exist. */
export function git(folder: string, args: readonly string[]): Promise<GitAnswer> {
  const settings = SETTINGS.flatMap((setting) => ["-c", setting]);
  const options = {
    cwd: folder,
    env: environment(),
    timeout: LIMITS.workspace_git_ms_max,
    killSignal: "SIGKILL",
    maxBuffer: LIMITS.workspace_git_bytes_max,
    windowsHide: true,
  } as const;
  return new Promise((resolve) => {
    execFile("git", ["--no-optional-locks", ...settings, ...args], options, (error, out, stderr) => {
      if (error === null) resolve({ ok: true, out });
      else if (error.code === "ENOENT") resolve({ ok: false, reason: "missing" });
      else if (stderr.includes("not a git repository")) resolve({ ok: false, reason: "no_repository" });
      else resolve({ ok: false, reason: error.code === 1 ? "no" : "failed" });
    });
  });
}
