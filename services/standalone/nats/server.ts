/**
 * The standalone fleet's own nats-server: a child process with durable settings, on loopback by default.
 *
 * It does not outlive its parent. The parent holds the only end of a pipe. When the parent ends, even by SIGKILL, a small shell
 * reads the end of that pipe and stops the server. If the shell is killed as well, the next start finds the orphan by the
 * note in the folder. The server has a process group of its own, so Ctrl-C reaches only Fleet, which finishes its work before it
 * stops the bus.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServerClaims } from "../../../shared/bus/access/claims.ts";
import { adoptStreams } from "../../../shared/bus/access/stream-accounts.ts";
import { natsServerName } from "../../../shared/bus/server-name.ts";
import type { KeyEncryptionKeys } from "../../../shared/integrity/encryption/key-encryption-key.ts";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import { StartupError } from "../../../shared/runtime/process/startup.ts";
import { writeWhole } from "../../../shared/runtime/process/whole-file.ts";
import { usableNatsServer } from "./binary.ts";
import { natsConfig } from "./config.ts";
import { type Listener, listenerUrl } from "./listener.ts";
import { lockNatsFolder, type NatsLock } from "./lock.ts";
import { type OutputListeners, ServerOutput } from "./output.ts";
import { encryptStreams } from "./stream-conversion.ts";
import { STREAM_FOLDER } from "./stream-folder.ts";
import { openStreamKey } from "./stream-key.ts";

export interface NatsServerOptions extends OutputListeners {
  /** The project folder, into which the setup installs a server. */
  readonly root: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The folder for everything that the server writes. */
  readonly dir: string;
  /** Default: 127.0.0.1 without TLS. */
  readonly listener?: Listener;
  /** -1 takes any free port. */
  readonly port: number;
  /** The identity of the fleet, which clients compare. Absent: they accept any. */
  readonly fleet?: string;
  readonly log: Logger;
  readonly maxPayloadBytes?: number;
  /**
   * Makes the claims that the server trusts, at each start: credentials may have been revoked since the last
   * one. Absent: every local user may connect and do everything.
   */
  readonly claims?: (() => Promise<ServerClaims>) | undefined;
  /** The server encrypts its streams. Absent: they are plain, and encrypted ones are refused. */
  readonly rootKeys?: KeyEncryptionKeys | undefined;
  /** The limit for the start, in which the server reads its store. Default 60,000. */
  readonly readyMs?: number;
}

export interface ServerExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** False unless this process stopped the server. */
  readonly expected: boolean;
}

export interface NatsServer {
  readonly url: string;
  readonly port: number;
  readonly monitorUrl: string;
  readonly pid: number;
  readonly version: string;
  /** The limit of JetStream on disk; see fleetStreams. */
  readonly storeBytesMax: number;
  readonly exited: Promise<ServerExit>;
  kill(signal: NodeJS.Signals): void;
  /** Sends SIGTERM, and SIGKILL after a while. */
  stop(): Promise<void>;
}

const LOOPBACK: Listener = { host: "127.0.0.1", tls: undefined };
const MIB = 1024 * 1024;
const STORE_BYTES = { wanted: 16_384 * MIB, freeMin: 64 * MIB };
const STOP_MS = 10_000;
const READY_MS = 60_000;
/** A server that encrypts streams reads and writes all of them. */
const ENCRYPTED_MS = 1_800_000;
/** In the environment of the server alone. */
const STREAM_KEY = "STREAM_KEY";

/** Resolves when the server is ready. Throws StartupError: binary missing or too old, port taken, folder in use, disk full. */
export async function startNatsServer(o: NatsServerOptions): Promise<NatsServer> {
  const binary = await usableNatsServer(o.root, o.env);
  const dir = resolve(o.dir);
  const lock = await openFolder(dir);
  try {
    const streamKey = await openStreamKey(dir, o.rootKeys);
    const claims = await o.claims?.();
    if (streamKey !== undefined)
      await encryptStreams(dir, (folder) =>
        readStreams(binary.path, dir, { ...o, streamKey, claims, folder, lock }),
      );
    const { configPath, portsDir, storeBytesMax } = prepareFolder(dir, o, { claims, streamKey });
    const running = launch(binary.path, configPath, { ...o, streamKey, onEnd: () => lock.release() });
    const addresses = await noteAndWait(running, lock, { ...o, portsDir, streamKey }).catch(
      async (error: unknown) => {
        await running.stop();
        throw error;
      },
    );
    const { exited, kill, stop } = running;
    return {
      ...addresses,
      exited,
      kill,
      stop,
      pid: running.child.pid!,
      version: binary.version,
      storeBytesMax,
    };
  } catch (error) {
    lock.release();
    throw folderProblem(error, dir);
  }
}

async function openFolder(dir: string): Promise<NatsLock> {
  try {
    mkdirSync(dir, { recursive: true });
    return await lockNatsFolder(dir);
  } catch (error) {
    throw folderProblem(error, dir);
  }
}

/** Errors of the file system are for the user to repair; any other error stays unchanged. */
function folderProblem(error: unknown, dir: string): unknown {
  const { code } = error as NodeJS.ErrnoException;
  if (code === "ENOSPC" || code === "EDQUOT") {
    return failed("the disk is full", { dir, code }, "free some space, or set FLEET_HOME to another folder");
  }
  if (code === "EACCES" || code === "EPERM" || code === "EROFS" || code === "ENOTDIR" || code === "EEXIST") {
    return failed(
      "the folder for messages cannot be used",
      { dir, code },
      "check its owner, or use another folder",
    );
  }
  return error;
}

/** Runs a server that clients do not find on the streams of a folder, until it has encrypted all of them. */
async function readStreams(
  binary: string,
  dir: string,
  o: Omit<NatsServerOptions, "claims"> & {
    readonly streamKey: string;
    readonly claims: ServerClaims | undefined;
    readonly folder: string;
    readonly lock: NatsLock;
  },
): Promise<void> {
  o.log.info({ dir }, "the streams of the bus are encrypted");
  const hidden = { ...o, listener: LOOPBACK, port: -1, readyMs: ENCRYPTED_MS };
  const { configPath, portsDir } = prepareFolder(dir, { ...hidden, claims: undefined }, o);
  const running = launch(binary, configPath, { log: o.log, streamKey: o.streamKey, onEnd: () => {} });
  try {
    await noteAndWait(running, o.lock, { ...hidden, claims: undefined, portsDir });
  } finally {
    await running.stop();
  }
}

interface PreparedServer {
  readonly claims: ServerClaims | undefined;
  readonly streamKey: string | undefined;
  /** That of the streams. */
  readonly folder?: string;
}

function prepareFolder(dir: string, o: NatsServerOptions, { claims, streamKey, folder }: PreparedServer) {
  const configPath = join(dir, "nats.conf");
  const portsDir = join(dir, "ports");
  rmSync(portsDir, { recursive: true, force: true });
  mkdirSync(portsDir);
  const listener = o.listener ?? LOOPBACK;
  const storeBytesMax = chosenStoreBytes(configPath) ?? freeStoreBytes(dir);
  const settings = {
    host: listener.host,
    ...(listener.tls !== undefined && { tls: listener.tls }),
    port: o.port,
    name: natsServerName(process.pid, o.fleet),
    storeDir: folder ?? join(dir, STREAM_FOLDER),
    portsDir,
    storeBytesMax,
    ...(o.maxPayloadBytes !== undefined && { maxPayloadBytes: o.maxPayloadBytes }),
    ...(streamKey !== undefined && { streamKeyVariable: STREAM_KEY }),
    ...(claims !== undefined && { access: { claims, claimsDir: join(dir, "claims") } }),
  };
  adoptStreams(settings.storeDir, claims?.account.name);
  // Not overwritten in place: on a full disk that would lose the limit that the first start chose.
  writeWhole(configPath, natsConfig(settings));
  return { configPath, portsDir, storeBytesMax };
}

/** The limit of the first start stays: one that followed the free space could fall below the limits of the streams. */
function chosenStoreBytes(configPath: string): number | undefined {
  try {
    const chosen = /max_file_store: (\d+)/.exec(readFileSync(configPath, "utf8"))?.[1];
    return chosen === undefined ? undefined : Number(chosen);
  } catch {
    return undefined;
  }
}

function freeStoreBytes(dir: string): number {
  const { bavail, bsize } = statfsSync(dir);
  const free = bavail * bsize;
  if (free < STORE_BYTES.freeMin) {
    throw failed(
      "the disk is full",
      { dir, free_bytes: free },
      "free some space, or set FLEET_HOME to another folder",
    );
  }
  return Math.floor(Math.min(STORE_BYTES.wanted, free / 2));
}

interface Running {
  readonly child: ChildProcess;
  readonly output: ServerOutput;
  readonly exited: Promise<ServerExit>;
  kill(signal: NodeJS.Signals): void;
  stop(): Promise<void>;
}

interface LaunchOptions extends OutputListeners {
  readonly log: Logger;
  readonly streamKey: string | undefined;
  readonly onEnd: () => void;
}

function launch(
  binary: string,
  configPath: string,
  { log, streamKey, onEnd, ...listeners }: LaunchOptions,
): Running {
  const child = spawn(binary, ["-c", configPath], {
    stdio: ["ignore", "ignore", "pipe"],
    detached: true,
    // In quotes: the server reads the value as its configuration, in which hex digits may be a number.
    env: streamKey === undefined ? {} : { [STREAM_KEY]: `"${streamKey}"` },
  });
  const output = new ServerOutput(child.stderr!, log, listeners);
  const guard = child.pid === undefined ? undefined : guardOf(child.pid);
  let expected = false;
  const exited = new Promise<ServerExit>((done) => {
    const end = (code: number | null, signal: NodeJS.Signals | null) => {
      guard?.kill("SIGKILL");
      onEnd();
      done({ code, signal, expected });
    };
    // "close" and not "exit": the last lines of the output explain the end.
    child.once("close", end);
    child.once("error", () => end(null, null));
  });
  return {
    child,
    output,
    exited,
    kill: (signal) => void child.kill(signal),
    async stop() {
      expected = true;
      child.kill("SIGTERM");
      const deadline = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await exited;
      clearTimeout(deadline);
    },
  };
}

/** Stops the server when its standard input ends, which happens when this process ends. */
function guardOf(pid: number): ChildProcess {
  const script = 'read -r _; kill -TERM "$1"';
  const guard = spawn("sh", ["-c", script, "sh", String(pid)], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  // Neither the pipe nor the shell may keep a finished parent alive. Without a shell only this protection is missing.
  guard.unref();
  guard.on("error", () => {});
  guard.stdin?.on("error", () => {});
  (guard.stdin as unknown as { unref?: () => void } | null)?.unref?.();
  return guard;
}

/** A server whose note cannot be written is stopped, because the next start could not find it as an orphan. */
async function noteAndWait(running: Running, lock: NatsLock, o: ReadyOptions) {
  if (running.child.pid !== undefined) lock.noteServer(running.child.pid);
  return ready(running, o);
}

interface ReadyOptions extends NatsServerOptions {
  readonly portsDir: string;
  readonly streamKey: string | undefined;
}

async function ready(running: Running, o: ReadyOptions) {
  const end = performance.now() + (o.readyMs ?? READY_MS);
  let exit: ServerExit | undefined;
  void running.exited.then((how) => (exit = how));
  while (performance.now() < end) {
    if (exit !== undefined)
      throw running.output.problem({ dir: o.dir, port: o.port, code: exit.code, signal: exit.signal });
    const addresses = readPorts(o.portsDir, o.listener ?? LOOPBACK);
    if (addresses !== undefined && (await isReady(addresses.monitorUrl, o))) {
      running.output.ready();
      return addresses;
    }
    await sleep(10);
  }
  throw failed(
    "nats-server is not ready in time",
    { dir: o.dir, waited_ms: o.readyMs ?? READY_MS },
    "see its output above",
  );
}

/** The addresses that the server writes into `<program>_<pid>.ports`; undefined until the file is complete. */
function readPorts(
  portsDir: string,
  listener: Listener,
): { url: string; port: number; monitorUrl: string } | undefined {
  const name = readdirSync(portsDir).find((file) => file.endsWith(".ports"));
  if (name === undefined) return undefined;
  try {
    const ports = JSON.parse(readFileSync(join(portsDir, name), "utf8")) as {
      nats?: string[];
      monitoring?: string[];
    };
    const [url, monitorUrl] = [ports.nats?.[0], ports.monitoring?.[0]];
    if (url === undefined || monitorUrl === undefined) return undefined;
    const port = Number(new URL(url).port);
    return { url: listenerUrl(listener, url, port), port, monitorUrl };
  } catch {
    return undefined;
  }
}

/** A server leaves out streams that it cannot decrypt. With a key, it is ready when it has opened all of them. */
async function isReady(monitorUrl: string, { streamKey }: ReadyOptions): Promise<boolean> {
  try {
    const url = new URL("/healthz?js-enabled-only=true", monitorUrl);
    if (!(await fetch(url, { signal: AbortSignal.timeout(1_000) })).ok) return false;
    if (streamKey === undefined) return true;
    const all = await fetch(new URL("/healthz?details=true", monitorUrl), {
      signal: AbortSignal.timeout(1_000),
    });
    return !/could not be recovered/.test(await all.text());
  } catch {
    return false;
  }
}

function failed(message: string, details: Readonly<Record<string, unknown>>, hint: string): StartupError {
  return new StartupError(message, { exitCode: ERROR_TABLE.UNAVAILABLE.exit, details, hint });
}
