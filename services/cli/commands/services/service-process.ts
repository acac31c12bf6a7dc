// A service in the foreground, in the place of the command: same process, so the same streams and signals, and one less in the memory.

import { spawn } from "node:child_process";
import { constants } from "node:os";

/** On Linux and macOS, from Node 22.15. */
const { execve } = process as { readonly execve?: typeof process.execve };

/** The process becomes the service. Where it cannot: resolves with the exit code of the service, which is a child. */
export function runService(main: string, env: NodeJS.ProcessEnv): Promise<number> {
  if (execve === undefined || process.platform === "win32") return runChild(main, env);
  return execve(process.execPath, [process.execPath, main], env);
}

/** The child decides how to stop, and its exit code becomes that of the command. */
function runChild(main: string, env: NodeJS.ProcessEnv): Promise<number> {
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
