// A test that is killed must not leave its servers behind: a shell waits for the end of this process and then cleans up.
// It holds the reading end of a pipe whose other end nobody has but this process, so every way of ending is noticed.
import { spawn } from "node:child_process";
import { once } from "node:events";

export interface Guard {
  /** There is nothing left to clean up. */
  dismiss(): void;
  /** Cleans up now; resolves when that is done. */
  run(): Promise<void>;
}

/** `script` sees `args` as $1, $2, … */
export function whenThisProcessEnds(script: string, ...args: string[]): Guard {
  const shell = spawn("sh", ["-c", `read -r _; ${script}`, "sh", ...args], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true, // Ctrl-C is for the tests, not for who cleans up after them
  });
  shell.unref();
  const pipe = shell.stdin as typeof shell.stdin & { unref?: () => void };
  pipe.unref?.();
  pipe.on("error", () => {}); // the shell may have been killed together with everything else
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
