/**
 * Real FoundationDB servers for tests, with the durable `ssd` engine, an empty database and free ports: a single node, or a cluster
 * in zones, which needs the programs on PATH. The sources of a single node, in this order:
 *
 * 1. FLEET_TEST_FDB_CLUSTER_FILE names a running cluster. The tests may erase all its keys; they never configure, stop or
 *    remove it. Test files must not share it at the same time (`--no-file-parallelism`).
 * 2. `fdbserver` and `fdbcli` on PATH.
 * 3. A container engine that answers, with the image of FoundationDB.
 *
 * The client library libfdb_c is needed in every case. One test file names the missing parts in one line, and the others skip
 * in silence.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openFoundationdb } from "../../../shared/store/drivers/foundationdb.ts";
import { loadClient } from "../../../shared/store/foundationdb/client.ts";
import { KEY_SPACE } from "../../../shared/store/limits.ts";
import { type Store, StoreError } from "../../../shared/store/store.ts";
import { missingContainers } from "../containers/loopback-container.ts";
import { freePort } from "../free-port.ts";
import { containerMachine } from "./foundationdb-container.ts";
import type { FoundationdbMachine } from "./foundationdb-machine.ts";
import { missingPrograms, processMachine } from "./foundationdb-process.ts";
import { type Zone, zonedMachine } from "./foundationdb-zones.ts";

const READY_MS = 60_000;

export interface FoundationdbServer {
  readonly clusterFile: string;
  /** Absent for a cluster that the tests did not start. */
  readonly control?: FoundationdbControl;
  /** Stops the server and removes its data; does nothing to a cluster that the tests did not start. Safe to call twice. */
  stop(): Promise<void>;
}

/** A cluster in which one zone at a time is killed or frozen. */
export interface FoundationdbCluster extends FoundationdbServer {
  readonly zones: ReadonlyMap<string, Zone>;
  /** Resolves with true when the cluster can lose any zone again, and with false when it cannot after a minute. */
  settled(): Promise<boolean>;
}

export interface FoundationdbControl {
  /** Sends SIGKILL, which has the effect of a power cut; waits until the process has ended. */
  kill(): Promise<void>;
  /** Stops the process, which stays alive and never answers. */
  pause(): void | Promise<void>;
  continue(): void | Promise<void>;
  /** Kills a running server, starts it with the same data and waits until the database is available. */
  restart(): Promise<void>;
  /** The output of `fdbserver --version`. */
  version(): Promise<string>;
}

/** The reason why tests with a FoundationDB server cannot run here, in one line; undefined when they can. */
export async function missingFoundationdb(): Promise<string | undefined> {
  const programs = clusterFileGiven() === undefined ? missingPrograms() : undefined;
  const docker = programs === undefined ? undefined : await missingContainers();
  if (docker !== undefined) return `${programs}, ${docker}, FLEET_TEST_FDB_CLUSTER_FILE is not set`;
  return await missingClient();
}

/** Whether the tests use a cluster that they did not start, and so one database. */
export function isClusterGiven(): boolean {
  return clusterFileGiven() !== undefined;
}

/** The reason why no cluster with zones can be started here, in one line. */
export async function missingCluster(): Promise<string | undefined> {
  if (isClusterGiven()) return "FLEET_TEST_FDB_CLUSTER_FILE names a cluster that the tests must not stop";
  return missingPrograms() ?? (await missingClient());
}

/** Starts three zones of two processes each, which keep two copies. Resolves when any one of them may fail. */
export async function startFoundationdbCluster(): Promise<FoundationdbCluster> {
  const { machine, ...server } = await startMachine(zonedMachine, "double");
  const settled = () => untilStatus(machine, canLoseZone).catch(() => false);
  if (await settled()) return { ...server, zones: machine.zones, settled };
  await server.stop();
  throw new Error("the FoundationDB cluster did not become able to lose a zone");
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
  const make = missingPrograms() === undefined ? processMachine : containerMachine;
  const one = async (directory: string, clusterFile: string) =>
    make(await freePort(), directory, clusterFile);
  const { machine: _, ...server } = await startMachine(one, "single");
  return server;
}

async function startMachine<M extends FoundationdbMachine>(
  make: (directory: string, clusterFile: string) => Promise<M>,
  copies: "single" | "double",
): Promise<FoundationdbServer & { readonly machine: M }> {
  const directory = await mkdtemp(join(tmpdir(), "fleet-fdb-"));
  const clusterFile = join(directory, "fdb.cluster");
  const machine = await make(directory, clusterFile);
  await writeFile(clusterFile, `${machine.connection}\n`);
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= machine.remove().then(() => rm(directory, { recursive: true, force: true }));
    return stopped;
  };
  const restart = async () => {
    await machine.kill();
    await machine.start();
    await untilStatus(machine, isAvailable);
  };
  try {
    await machine.start();
    await configure(machine, copies);
    await untilStatus(machine, isAvailable);
  } catch (error) {
    await stop();
    throw error;
  }
  return { clusterFile, control: { ...machine, restart }, stop, machine };
}

/**
 * Runs only with the cluster file written above, because on a cluster in use it would create a new database. A server that is
 * starting can lose the command, so it is repeated until the database exists.
 */
async function configure(machine: FoundationdbMachine, copies: "single" | "double"): Promise<void> {
  const endsAt = performance.now() + READY_MS;
  for (;;) {
    try {
      await machine.cli(`configure new ${copies} ssd`);
      return;
    } catch (error) {
      if (String((error as { stdout?: string }).stdout).includes("already exists")) return;
      if (performance.now() > endsAt) throw error;
    }
  }
}

/** The part of `status json` that is read here. */
interface Status {
  readonly client?: {
    readonly database_status?: { readonly available?: boolean };
    readonly messages?: unknown;
  };
  readonly cluster?: {
    readonly fault_tolerance?: { readonly max_zone_failures_without_losing_availability?: number };
  };
}

const isAvailable = ({ client }: Status): boolean => client?.database_status?.available === true;

const canLoseZone = (status: Status): boolean =>
  isAvailable(status) &&
  (status.cluster?.fault_tolerance?.max_zone_failures_without_losing_availability ?? 0) >= 1;

/** Resolves with true when the status fulfils the condition. */
async function untilStatus(
  machine: FoundationdbMachine,
  holds: (status: Status) => boolean,
): Promise<boolean> {
  const endsAt = performance.now() + READY_MS;
  let last: unknown;
  while (performance.now() < endsAt) {
    try {
      const status = JSON.parse(await machine.cli("status json")) as Status;
      if (holds(status)) return true;
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
