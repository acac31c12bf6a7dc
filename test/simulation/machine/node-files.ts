/**
 * Puts the simulated files into `node:fs`, `node:fs/promises` and `node:sqlite`. Only paths of the simulated folder and descriptors of its files
 * are theirs; any other call passes to what was there before. A call that Node answers later takes simulated time, in which its process can end.
 */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { activeSimulation } from "../time/run.ts";
import { FD_FIRST, type FileFacts, fileError, SIMULATED_FOLDER, type SimulatedFiles } from "./file-system.ts";
import { replaceDatabases } from "./folder-locks.ts";
import { activeMachine, type SimulatedMachine } from "./machine.ts";
import { type AnyFunction, replaceCall } from "./replace-call.ts";

/** The machine, if it has what a call names. */
function machineWith(target: unknown): SimulatedMachine | undefined {
  const machine = activeMachine();
  return machine !== undefined && isSimulated(target) ? machine : undefined;
}

function isSimulated(target: unknown): boolean {
  if (typeof target === "number") return target >= FD_FIRST;
  const path = target instanceof URL ? target.pathname : String(target);
  // The root is above the folder, and syncs of folders reach it.
  return path === "/" || path === SIMULATED_FOLDER || path.startsWith(`${SIMULATED_FOLDER}/`);
}

const SYNC = [
  ...(["openSync", "closeSync", "writeSync", "fsyncSync", "fdatasyncSync", "readFileSync"] as const),
  ...(["writeFileSync", "renameSync", "linkSync", "rmSync", "unlinkSync", "mkdirSync"] as const),
  ...(["readdirSync", "statSync", "lstatSync", "fstatSync", "statfsSync", "accessSync"] as const),
  "existsSync",
] as const;

/** The functions of `node:fs/promises`: each does later what the one with the same name does at once. */
const LATER = [
  ...(["readFile", "writeFile", "rename", "link", "rm", "unlink", "mkdir"] as const),
  ...(["readdir", "stat", "lstat", "statfs", "access"] as const),
] as const;

const LATENCY_MS = { least: 0.02, spread: 0.3 };

/** The call is carried out at its end: a process that is killed before has not made it. */
function later<T>(call: () => T): Promise<T> {
  const { schedule, random } = activeSimulation()!;
  return new Promise((resolve, reject) => {
    schedule.enter(LATENCY_MS.least + random() * LATENCY_MS.spread, () => {
      try {
        resolve(call());
      } catch (error) {
        reject(error as Error);
      }
    });
  });
}

/** As `FileHandle` of Node. */
class SimulatedHandle {
  readonly fd: number;
  readonly #files: SimulatedFiles;

  constructor(files: SimulatedFiles, fd: number) {
    this.#files = files;
    this.fd = fd;
  }

  stat(options?: { readonly bigint?: boolean }): Promise<FileFacts> {
    return later(() => this.#files.fstatSync(this.fd, options));
  }

  write(data: string | Uint8Array, offset?: number, length?: number, position?: number | null) {
    return later(() => ({
      bytesWritten: this.#files.writeSync(this.fd, data, offset, length, position),
      buffer: data,
    }));
  }

  readFile(options?: BufferEncoding): Promise<string | Buffer> {
    return later(() => this.#files.readFileSync(this.fd, options));
  }

  sync(): Promise<void> {
    return later(() => this.#files.fsyncSync(this.fd));
  }

  datasync(): Promise<void> {
    return this.sync();
  }

  close(): Promise<void> {
    return later(() => this.#files.closeSync(this.fd));
  }
}

/** `simulated` takes the place of a function for calls with such a first argument. */
function route(
  owner: object,
  name: string,
  simulated: (machine: SimulatedMachine, args: unknown[]) => unknown,
): void {
  replaceCall(owner, name, (args) => {
    const machine = machineWith(args[0]);
    machine?.processes.noteCurrent();
    return machine && (() => simulated(machine, args));
  });
}

const call = (files: SimulatedFiles, name: (typeof SYNC)[number], args: unknown[]): unknown =>
  (files[name] as AnyFunction).apply(files, args);

function replaceProcessFiles(): void {
  replaceCall(fs, "readFileSync", ([path]) => {
    const processes = activeMachine()?.processes;
    if (processes === undefined || typeof path !== "string" || !path.startsWith("/proc/")) return undefined;
    processes.noteCurrent();
    return () => {
      const content = processes.read(path);
      if (content === undefined) throw fileError("ENOENT", "open", path);
      return content;
    };
  });
}

/** Once in a process, after the traps: these would forbid most of the calls. */
export function replaceFiles(): void {
  for (const name of SYNC) route(fs, name, ({ files }, args) => call(files, name, args));
  for (const name of LATER)
    route(fs.promises, name, ({ files }, args) => later(() => call(files, `${name}Sync`, args)));
  route(fs.promises, "open", ({ files }, [path, flags]) =>
    later(() => new SimulatedHandle(files, files.openSync(path as string, flags as string | number))),
  );
  replaceProcessFiles();
  replaceDatabases((path) => machineWith(path)?.locks);
  syncBuiltinESMExports();
}
