/** Runs a program of the simulation in a process of its own, with the replaced globals. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const PRELOAD = new URL("./time/preload.ts", import.meta.url).href;
const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;

/** The arguments of Node. */
export const commandOf = (program: URL, args: readonly string[]): string[] => [
  ...["--disable-warning=ExperimentalWarning", "--import", PRELOAD],
  ...[program.pathname, ...args],
];

/** Resolves with its output. Rejects if it ends with an error. */
export async function runSimulated(program: URL, args: readonly string[]): Promise<string> {
  const command = commandOf(program, args);
  const { stdout } = await promisify(execFile)(process.execPath, command, { maxBuffer: OUTPUT_BYTES_MAX });
  return stdout;
}
