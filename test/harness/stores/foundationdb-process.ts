// A FoundationDB server as a child process, from the programs on PATH.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { mkdir } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { type Guard, whenThisProcessEnds } from "../processes/orphan-guard.ts";
import { pauseProcess } from "../processes/pause.ts";
import { CLI_TIMEOUT_S, type FoundationdbMachine } from "./foundationdb-machine.ts";

const run = promisify(execFile);

/** The programs of FoundationDB that cannot be found, in a few words. */
export function missingPrograms(): string | undefined {
  const absent = ["fdbserver", "fdbcli"].filter((program) => programPath(program) === undefined);
  return absent.length === 0 ? undefined : `no ${absent.join(" and ")} on PATH`;
}

interface FdbserverOptions {
  readonly port: number;
  /** The folder of all servers of the cluster, which is removed when this process ends. */
  readonly directory: string;
  readonly clusterFile: string;
  /** The name of the zone. Absent: each process is a zone of its own. */
  readonly zone?: string;
}

export interface FdbserverProcess {
  readonly address: string;
  start(): Promise<void>;
  kill(): Promise<void>;
  pause(): void;
  continue(): void;
}

export function fdbserverProcess({ port, directory, clusterFile, zone }: FdbserverOptions): FdbserverProcess {
  const [data, log] = [join(directory, `data-${port}`), join(directory, "log")];
  const address = `127.0.0.1:${port}`;
  const flags = ["-p", address, "-l", address, "-C", clusterFile, "-d", data, "-L", log];
  if (zone !== undefined) flags.push(`--locality-zoneid=${zone}`, `--locality-machineid=${zone}`);
  let server: ChildProcess | undefined;
  let guard: Guard | undefined;
  return {
    address,
    async start() {
      await Promise.all([data, log].map((path) => mkdir(path, { recursive: true })));
      // Kernel AIO needs a file system with O_DIRECT, which the ones under containers often lack.
      server = spawn("fdbserver", [...flags, "--knob_disable_posix_kernel_aio=1"], { stdio: "ignore" });
      await once(server, "spawn");
      guard = whenThisProcessEnds('kill -KILL "$1"; rm -rf "$2"', String(server.pid), directory);
    },
    async kill() {
      guard?.dismiss();
      if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
      const exited = once(server, "exit");
      server.kill("SIGKILL");
      await exited;
    },
    pause() {
      if (server?.pid !== undefined) pauseProcess(server.pid);
    },
    continue: () => void server?.kill("SIGCONT"),
  };
}

/** Machines of one or several processes differ only in the servers. */
export function machineOf(
  servers: FdbserverProcess,
  connection: string,
  clusterFile: string,
): FoundationdbMachine {
  return {
    ...servers,
    connection,
    remove: () => servers.kill(),
    async cli(command) {
      const args = ["-C", clusterFile, "--exec", command, "--timeout", CLI_TIMEOUT_S];
      const { stdout } = await run("fdbcli", args, { maxBuffer: 16_000_000 });
      return stdout;
    },
    version: async () => (await run("fdbserver", ["--version"])).stdout,
  };
}

export function processMachine(port: number, directory: string, clusterFile: string): FoundationdbMachine {
  const server = fdbserverProcess({ port, directory, clusterFile });
  return machineOf(server, `test:test@${server.address}`, clusterFile);
}

function programPath(program: string): string | undefined {
  const directories = (process.env.PATH ?? "").split(delimiter).filter((directory) => directory !== "");
  return directories.map((directory) => join(directory, program)).find(executable);
}

function executable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
