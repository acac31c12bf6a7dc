// A test that is killed must not leave its servers behind. A shell waits for the end of this process and then cleans up.
// It reads from a pipe whose only writer is this process, so it notices the end of the process however it comes about.
import { spawn } from "node:child_process";
import { once } from "node:events";

export interface Guard {
  /** Ends the guard without a cleanup. */
  dismiss(): void;
  /** Cleans up now; resolves when the cleanup is complete. */
  run(): Promise<void>;
}

/** Runs `script`, a shell script with `args` as $1, $2, …, when this process ends. */
export function whenThisProcessEnds(script: string, ...args: string[]): Guard {
  const shell = spawn("sh", ["-c", `read -r _; ${script}`, "sh", ...args], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // Ctrl-C must reach the tests only, not the cleanup
  });
  shell.unref();
  const pipe = shell.stdin as typeof shell.stdin & { unref?: () => void };
  pipe.unref?.();
  pipe.on("error", () => {}); // the shell may have been killed together with this process
  return {
    dismiss: () => void shell.kill("SIGKILL"),
    async run() {
      const exited = once(shell, "exit");
      shell.ref();
      pipe.end();
      await exited;
    },
  };
}
