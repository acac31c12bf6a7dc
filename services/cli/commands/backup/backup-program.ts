// The program that makes and restores backups. It opens the store itself, which the command line must not: so it is a process of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { programUrl } from "../../../../shared/runtime/process/installation.ts";
import { exitCodes, StartupError } from "../../../../shared/runtime/process/startup.ts";
import type { Session } from "../../runtime/session.ts";

const MAIN = fileURLToPath(programUrl("../../../standalone/backup/main.ts", import.meta.url));

/** Throws StartupError with the problem that the program has printed. */
export async function runBackupProgram<T>(
  session: Session,
  act: "backup" | "restore" | "restored",
  argument: string,
): Promise<T> {
  const { homeOf } = await import("../../../../shared/sdk/fleet-home.ts");
  const { env } = session.context;
  const child = spawn(process.execPath, [MAIN, act, argument, await session.caller()], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...env, FLEET_HOME: homeOf(env) },
  });
  const [out, err, [code, signal]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>,
  ]);
  if (code === 0) return JSON.parse(out) as T;
  if (code !== null) throw new StartupError(err.trim(), { exitCode: code });
  throw new StartupError("a signal ended the call", {
    exitCode: exitCodes.unavailable,
    details: { signal },
    // The library of the store maps files, and a page that finds no room on its disk raises this signal.
    hint: signal === "SIGBUS" ? "make room on the disk, and repeat the call" : "repeat the call",
  });
}
