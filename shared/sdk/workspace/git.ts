// The git of the machine, asked for facts. No shell, no lock, no index written, no network, no hook, no prompt; and never for long.

import { execFile } from "node:child_process";
import { LIMITS } from "../../protocol/limits.ts";

export type GitAnswer =
  | { readonly ok: true; readonly out: string }
  /** `missing`: there is no git. `no_repository`: not in one. `no`: exit code 1, an answer to a question. */
  | { readonly ok: false; readonly reason: "missing" | "no_repository" | "no" | "failed" };

const SETTINGS = ["core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false"];

/** A hook or another git may have set variables that lead to its own repository. */
function environment(): NodeJS.ProcessEnv {
  const foreign = Object.entries(process.env).filter(([name]) => !name.startsWith("GIT_"));
  return {
    ...Object.fromEntries(foreign),
    LC_ALL: "C",
    GIT_OPTIONAL_LOCKS: "0",
    GIT_TERMINAL_PROMPT: "0",
    GIT_NO_LAZY_FETCH: "1",
    // None of the protocols that there are, so that a partial clone fetches nothing.
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
    execFile("git", ["--no-optional-locks", ...settings, ...args], options, (error, out, complaint) => {
      if (error === null) resolve({ ok: true, out });
      else if (error.code === "ENOENT") resolve({ ok: false, reason: "missing" });
      else if (complaint.includes("not a git repository")) resolve({ ok: false, reason: "no_repository" });
      else resolve({ ok: false, reason: error.code === 1 ? "no" : "failed" });
    });
  });
}
