/**
 * One real FoundationDB server for tests: a single node with the durable `ssd` engine, an empty database and a free port.
 * The sources of the server, in this order:
 *
 * 1. FLEET_TEST_FDB_CLUSTER_FILE names a running cluster. The tests may erase all its keys; they never configure, stop or
 *    remove it. Test files must not share it at the same time (`--no-file-parallelism`).
 * 2. `fdbserver` and `fdbcli` on PATH.
 * 3. A Docker engine that answers.
 *
 * The client library libfdb_c is needed in every case. One test file names the missing parts in one line, and the others skip
 * in silence.
 */
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openFoundationdb } from "../../../shared/store/drivers/foundationdb.ts";
import { loadClient } from "../../../shared/store/foundationdb/client.ts";
import { KEY_SPACE } from "../../../shared/store/limits.ts";
import { type Store, StoreError } from "../../../shared/store/store.ts";
import { containerMachine, missingDocker } from "./foundationdb-container.ts";
import type { FoundationdbMachine } from "./foundationdb-machine.ts";
import { missingPrograms, processMachine } from "./foundationdb-process.ts";

const READY_MS = 60_000;

export interface FoundationdbServer {
  readonly clusterFile: string;
  /** Absent for a cluster that the tests did not start. */
  readonly control?: FoundationdbControl;
  /** Stops the server and removes its data; does nothing to a cluster that the tests did not start. */
  stop(): Promise<void>;
}

export interface FoundationdbControl {
  /** Sends SIGKILL, which has the effect of a power cut; waits until the process has ended. */
  kill(): Promise<void>;
  /** Stops the process, which stays alive and never answers. */
  pause(): void;
  continue(): void;
  /** Kills a running server, starts it with the same data and waits until the database is available. */
  restart(): Promise<void>;
  /** The output of `fdbserver --version`. */
  version(): Promise<string>;
}

/** The reason why tests with a FoundationDB server cannot run here, in one line; undefined when they can. */
export async function missingFoundationdb(): Promise<string | undefined> {
  const programs = clusterFileGiven() === undefined ? missingPrograms() : undefined;
  const docker = programs === undefined ? undefined : await missingDocker();
  if (docker !== undefined) return `${programs}, ${docker}, FLEET_TEST_FDB_CLUSTER_FILE is not set`;
  return await missingClient();
}

/** The given cluster, emptied, or a new server with an empty database. */
export async function startFoundationdb(): Promise<FoundationdbServer> {
  const given = clusterFileGiven();
  if (given === undefined) return await startServer();
  const store = await openFoundationdb({ clusterFile: given });
  await eraseEverything(store).finally(() => store.close({ drainMs: 0 }));
  return { clusterFile: given, stop: async () => {} };
}

/** Clears every key that a store can hold. */
export async function eraseEverything(store: Store): Promise<void> {
  await store.transact({ label: "erase", deadlineMs: READY_MS, onUnknown: "safe" }, async (tx) =>
    tx.clearRange(KEY_SPACE),
  );
}

async function startServer(): Promise<FoundationdbServer> {
  const directory = await mkdtemp(join(tmpdir(), "fleet-fdb-"));
  const port = await freePort();
  const clusterFile = join(directory, "fdb.cluster");
  const machine =
    missingPrograms() === undefined ? processMachine(port, directory, clusterFile) : containerMachine(port);
  await writeFile(clusterFile, `${machine.connection}\n`);
  const stop = async () => {
    await machine.remove();
    await rm(directory, { recursive: true, force: true });
  };
  const restart = async () => {
    await machine.kill();
    await machine.start();
    await untilAvailable(machine);
  };
  try {
    await machine.start();
    await configure(machine);
    await untilAvailable(machine);
  } catch (error) {
    await stop();
    throw error;
  }
  return { clusterFile, control: { ...machine, restart }, stop };
}

/**
 * Runs only with the cluster file written above, because on a cluster in use it would create a new database. A server that is
 * starting can lose the command, so it is repeated until the database exists.
 */
async function configure(machine: FoundationdbMachine): Promise<void> {
  const endsAt = performance.now() + READY_MS;
  for (;;) {
    try {
      await machine.cli("configure new single ssd");
      return;
    } catch (error) {
      if (String((error as { stdout?: string }).stdout).includes("already exists")) return;
      if (performance.now() > endsAt) throw error;
    }
  }
}

async function untilAvailable(machine: FoundationdbMachine): Promise<void> {
  const endsAt = performance.now() + READY_MS;
  let last: unknown;
  while (performance.now() < endsAt) {
    try {
      const status = JSON.parse(await machine.cli("status json"));
      if (status.client?.database_status?.available === true) return;
      last = status.client?.messages;
    } catch (error) {
      last = error;
    }
  }
  throw new Error("the FoundationDB server did not become available", { cause: last });
}

async function missingClient(): Promise<string | undefined> {
  try {
    await loadClient();
    return undefined;
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return `${error.message} (${String(error.details.reason)})`;
  }
}

function clusterFileGiven(): string | undefined {
  return process.env.FLEET_TEST_FDB_CLUSTER_FILE || undefined;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  if (address === null || typeof address === "string") throw new Error("no free port");
  return address.port;
}
