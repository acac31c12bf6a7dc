/**
 * One real FoundationDB server for tests: a single process with the durable `ssd` engine in a new directory, on a free
 * port. It can be killed, paused and restarted with its data. FLEET_TEST_FDB_CLUSTER_FILE names a running cluster to
 * use instead; its keys are at the tests' disposal, and it is never configured, stopped or removed from here.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { loadClient } from "../../shared/store/foundationdb/client.ts";
import { StoreError } from "../../shared/store/store.ts";

const READY_MS = 60_000;
const run = promisify(execFile);

export interface FoundationdbServer {
  readonly clusterFile: string;
  /** Absent for a cluster that was not started here. */
  readonly control?: FoundationdbControl;
  /** Stops the server and removes its data; nothing for a cluster that was not started here. */
  stop(): Promise<void>;
}

export interface FoundationdbControl {
  /** SIGKILL, as a power cut would; waits until the process is gone. */
  kill(): Promise<void>;
  /** SIGSTOP: alive, and never answering. */
  pause(): void;
  continue(): void;
  /** Kills it if it runs, starts it with the same data, and waits until the database is available. */
  restart(): Promise<void>;
}

/** Why no FoundationDB test can run here, in one line; undefined when they can. */
export async function missingFoundationdb(): Promise<string | undefined> {
  if (clusterFileGiven() === undefined) {
    const absent = ["fdbserver", "fdbcli"].filter((program) => programPath(program) === undefined);
    if (absent.length > 0) {
      return `${absent.join(" and ")} not on PATH and FLEET_TEST_FDB_CLUSTER_FILE is not set`;
    }
  }
  try {
    await loadClient();
    return undefined;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return `${error.message} (${String(error.details.reason)})`;
  }
}

/** The cluster that was given, or a new server with an empty database. */
export async function startFoundationdb(): Promise<FoundationdbServer> {
  const given = clusterFileGiven();
  if (given !== undefined) return { clusterFile: given, stop: async () => {} };
  return await startServer(await mkdtemp(join(tmpdir(), "fleet-fdb-")));
}

async function startServer(directory: string): Promise<FoundationdbServer> {
  const port = await freePort();
  const clusterFile = join(directory, "fdb.cluster");
  await Promise.all(["data", "log"].map((name) => mkdir(join(directory, name))));
  await writeFile(clusterFile, `test:test@127.0.0.1:${port}\n`);

  let server = launch(directory, clusterFile, port);
  const killNow = () => server.kill("SIGKILL");
  process.once("exit", killNow); // a test that dies must not leave a server behind
  const kill = async () => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const exited = once(server, "exit");
    killNow();
    await exited;
  };
  const restart = async () => {
    await kill();
    server = launch(directory, clusterFile, port);
    await untilAvailable(clusterFile);
  };
  const stop = async () => {
    process.removeListener("exit", killNow);
    await kill();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    // Only ever on the cluster file written above: on a cluster in use this would begin a new database.
    await cli(clusterFile, "configure new single ssd");
    await untilAvailable(clusterFile);
  } catch (error) {
    await stop();
    throw error;
  }
  const pause = () => void server.kill("SIGSTOP");
  return {
    clusterFile,
    control: { kill, pause, continue: () => void server.kill("SIGCONT"), restart },
    stop,
  };
}

function launch(directory: string, clusterFile: string, port: number): ChildProcess {
  const address = `127.0.0.1:${port}`;
  const [data, log] = [join(directory, "data"), join(directory, "log")];
  // Kernel AIO needs a file system with O_DIRECT, which the ones under containers often lack.
  const flags = ["-p", address, "-l", address, "-C", clusterFile, "-d", data, "-L", log];
  return spawn("fdbserver", [...flags, "--knob_disable_posix_kernel_aio=1"], { stdio: "ignore" });
}

async function untilAvailable(clusterFile: string): Promise<void> {
  const endsAt = performance.now() + READY_MS;
  let last: unknown;
  while (performance.now() < endsAt) {
    try {
      const status = JSON.parse(await cli(clusterFile, "status json"));
      if (status.client?.database_status?.available === true) return;
      last = status.client?.messages;
    } catch (error) {
      last = error;
    }
  }
  throw new Error("the FoundationDB server did not become available", { cause: last });
}

async function cli(clusterFile: string, command: string): Promise<string> {
  const { stdout } = await run("fdbcli", ["-C", clusterFile, "--exec", command, "--timeout", "30"], {
    maxBuffer: 16_000_000,
  });
  return stdout;
}

function clusterFileGiven(): string | undefined {
  return process.env.FLEET_TEST_FDB_CLUSTER_FILE || undefined;
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

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("no free port");
  return address.port;
}
