/** Runs a line as the shell of an operator does. */

import { execFile, spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { callCli } from "../../services/cli/call.ts";
import { cli, environment, printed, type Result, resultOf } from "../../services/cli/process.ts";

/** More than any command prints. */
const OUTPUT_BYTES = 64 * 1024 * 1024;

interface Place {
  readonly env: Record<string, string>;
  readonly cwd: string;
}

/** Makes a folder for the `PATH` with the program `fleet`. */
export function writePrograms(folder: string, others: Readonly<Record<string, string>> = {}): void {
  mkdirSync(folder);
  const fleet = `exec "${process.execPath}" "${cli}" "$@"`;
  for (const [name, script] of Object.entries({ fleet, ...others })) {
    writeFileSync(join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }
}

/** A plain call of `fleet` runs in this process, any other line in a shell. */
export function runLine(command: string, { env, cwd }: Place): Promise<Result> {
  const words = plainWords(command);
  if (words?.[0] === "fleet" && !words.some((word) => USES_FOLDER.has(word)))
    return callCli(words.slice(1), { env });
  return new Promise((resolve) => {
    const options = { cwd, env: environment(env), maxBuffer: OUTPUT_BYTES };
    const child = execFile("/bin/bash", ["-c", command], options, (_, out, err) => {
      const signal = child.signalCode;
      resolve({ exit: child.exitCode, out, err: signal === null ? err : `${err}\nended by ${signal}` });
    });
  });
}

/** Interrupts a program once it follows something, or its own fleet or runner has started. It may also end by itself. */
export async function runUntilInterrupted(command: string, { env, cwd }: Place): Promise<Result> {
  const child = spawn("/bin/bash", ["-c", `exec env ${command}`], {
    cwd,
    env: environment(env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  printed(child, /^Following |^Fleet is up|runner started/m).then(
    () => child.kill("SIGINT"),
    () => {},
  );
  return resultOf(child);
}

/** The words of calls that read or write files of the current folder. */
const USES_FOLDER: ReadonlySet<string> = new Set([
  "init",
  "artifact",
  "--attach",
  "--file",
  "--out",
  "up",
  "export",
  "import",
  "backup",
  "restore",
]);

/** A word that means the same in every shell: bare, or in double quotes without an expansion. */
const PLAIN_WORD = /[\w./:@=,+-]+|"[^"$`\\!]*"/y;

/** The words of a command without any syntax of the shell; undefined for every other command. */
function plainWords(command: string): string[] | undefined {
  const words: string[] = [];
  for (let at = 0; at < command.length; at = PLAIN_WORD.lastIndex + 1) {
    PLAIN_WORD.lastIndex = at;
    const [word] = PLAIN_WORD.exec(command) ?? [];
    const isEnd = [undefined, " "].includes(command[PLAIN_WORD.lastIndex]);
    if (word === undefined || !isEnd) return undefined;
    words.push(word.startsWith('"') ? word.slice(1, -1) : word);
  }
  return words;
}
