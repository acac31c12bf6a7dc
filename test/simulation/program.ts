/** Runs a program of the simulation in a process of its own, with the replaced globals. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const PRELOAD = new URL("./time/preload.ts", import.meta.url).href;
/** For a program whose simulations take minutes of the processor, on a machine that runs other tests. */
export const PROGRAM_LIMIT_MS = 1_800_000;
const LIMITS = { maxBuffer: 256 * 1024 * 1024, timeout: PROGRAM_LIMIT_MS, killSignal: "SIGKILL" } as const;

/** A violation, or an error that nothing caught, which Node writes to stderr. */
const FAILED = 1;

/** The arguments of Node. With a larger young generation, the collector copies fewer of the objects that a story makes: 8 % of the time of a run. */
export const commandOf = (program: URL, args: readonly string[]): string[] => [
  ...["--disable-warning=ExperimentalWarning", "--max-semi-space-size=64", "--import", PRELOAD],
  ...[program.pathname, ...args],
];

/** Resolves with its output, which names the violation if there is one. Rejects if it ends with an error, or not in time. */
export async function runSimulated(program: URL, args: readonly string[]): Promise<string> {
  const command = commandOf(program, args);
  try {
    return (await promisify(execFile)(process.execPath, command, LIMITS)).stdout;
  } catch (error) {
    const { code, stdout, stderr } = error as { code?: unknown; stdout?: string; stderr?: string };
    if (code === FAILED && stdout !== undefined && stderr === "") return stdout;
    throw error;
  }
}
