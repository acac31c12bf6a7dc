/** The processes of a simulated machine: those that use its files, and the programs that they start. Locks of folders and runners ask whether one still runs. */
import { crc32 } from "node:zlib";
import { currentProcess, SimulatedProcess } from "../time/processes.ts";

/** Resolves with its exit code; it should do so when `terminated` aborts, as at SIGTERM. */
export type Program = (env: Readonly<Record<string, string>>, terminated: AbortSignal) => Promise<number>;

export interface ProgramEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface StartedProgram {
  readonly pid: number;
  readonly exited: Promise<ProgramEnd>;
}

interface Entry {
  readonly process: SimulatedProcess;
  readonly terminate: () => void;
}

const STAT = /^\/proc\/(\d+)\/stat$/;
const BOOT_ID = "/proc/sys/kernel/random/boot_id";
/** The fields of the file after the name of the program; the last one before the start time. */
const FIELDS_BEFORE_START = `S${" 0".repeat(18)}`;

export class ProcessTable {
  readonly #byPid = new Map<number, Entry>();
  readonly #onEnd: (process: SimulatedProcess) => void;
  #boots = 0;

  /** `onEnd` releases what the world holds for a program that was started here. */
  constructor(onEnd: (process: SimulatedProcess) => void) {
    this.#onEnd = onEnd;
  }

  /** Called at each use of a file. */
  noteCurrent(): void {
    const own = currentProcess();
    if (own !== undefined && this.#byPid.get(process.pid)?.process !== own)
      this.#byPid.set(process.pid, { process: own, terminate: () => own.kill() });
  }

  /** The program outlives its parent. The name is unique. */
  start(name: string, program: Program, env: Readonly<Record<string, string>>): StartedProgram {
    const own = new SimulatedProcess(name);
    const terminated = new AbortController();
    const pid = own.run(() => process.pid);
    this.#byPid.set(pid, { process: own, terminate: () => own.run(() => terminated.abort()) });
    const exited = new Promise<ProgramEnd>((resolve) => {
      own.onKill(() => {
        resolve({ code: null, signal: "SIGKILL" });
        this.#onEnd(own);
      });
      const end = (code: number): void => {
        resolve({ code, signal: null });
        own.kill();
      };
      own.arrival(own.run(() => program(env, terminated.signal))).then(end, () => end(1));
    });
    return { pid, exited };
  }

  /** As `process.kill`. */
  signal(pid: number, signal: NodeJS.Signals | 0): true {
    const entry = this.#byPid.get(Math.abs(pid));
    if (!entry?.process.isAlive) throw Object.assign(new Error("kill ESRCH"), { code: "ESRCH" });
    if (signal === "SIGTERM") entry.terminate();
    else if (signal !== 0) entry.process.kill();
    return true;
  }

  /** Every process ends with the power of the machine. */
  cutPower(): void {
    this.#boots += 1;
    for (const { process } of this.#byPid.values()) process.kill();
  }

  /** The content of a file below `/proc`; undefined: there is none. */
  read(path: string): string | undefined {
    if (path === BOOT_ID) return `${this.#boots}\n`;
    const pid = Number(STAT.exec(path)?.[1]);
    const found = this.#byPid.get(pid)?.process;
    return found?.isAlive ? `${pid} (node) ${FIELDS_BEFORE_START} ${crc32(found.name)}\n` : undefined;
  }
}
