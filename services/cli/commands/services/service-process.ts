// A service as a child in the foreground. Streams and signals pass through: the child decides how to stop, and its exit code
// becomes the exit code of the command.

import { spawn } from "node:child_process";
import { constants } from "node:os";

/** Resolves with the exit code. */
export function runService(main: string, env: NodeJS.ProcessEnv): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [main], { stdio: "inherit", env });
    // A terminal sends Ctrl-C to both processes, a supervisor only to this one. The child ignores the repetition.
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(signal, () => child.kill(signal));
    }
    child.once("error", reject);
    child.once("exit", (code, signal) => {
      process.removeAllListeners("SIGINT").removeAllListeners("SIGTERM").removeAllListeners("SIGHUP");
      resolve(code ?? 128 + constants.signals[signal ?? "SIGTERM"]);
    });
  });
}
