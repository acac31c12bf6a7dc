// The context of a setup run: a scratch folder and the child processes that fill it.
//
// Children write to files and not to pipes, so that they can finish if their parent is killed. Each is named in the lock
// while it runs. Signals are forwarded to all of them, and the setup ends when they have ended.

import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Problem } from "./problem.mjs";

/** Creates an empty scratch folder. The caller holds the lock, so existing files are the remains of a killed run. */
export function createSetupContext(folder, lock) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const children = new Set();
  let count = 0;

  return {
    folder,
    /** The signal that ended the run, if any. */
    stoppedBy: undefined,

    /**
     * Runs a command to its end.
     * @returns {Promise<{ ok: boolean, output: string }>} output: both streams in order
     */
    async run(command, args, options = {}) {
      if (this.stoppedBy) throw new Problem("interrupted");
      const path = join(folder, `${++count}.log`);
      const log = openSync(path, "a");
      const child = spawn(command, args, { ...options, stdio: ["ignore", log, log] });
      closeSync(log);
      const ended = new Promise((resolve) => {
        child.once("error", (error) => resolve({ code: null, failure: error.message }));
        child.once("exit", (code, signal) => resolve({ code, failure: signal ? `ended by ${signal}` : "" }));
      });
      children.add(child);
      if (child.pid) lock.add(child.pid);
      const { code, failure } = await ended;
      children.delete(child);
      if (child.pid) lock.remove(child.pid);
      if (this.stoppedBy) throw new Problem("interrupted");
      return { ok: code === 0, output: readFileSync(path, "utf8") + failure };
    },

    /** Ends all children, and prevents further ones from starting. */
    stop(signal) {
      this.stoppedBy ??= signal;
      for (const child of children) child.kill(signal);
    },
  };
}
