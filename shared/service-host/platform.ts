/**
 * The platform of every service process: tracing, the store with its layout checked, the bus with its
 * streams, and the operations port, opened in this order and closed in reverse. This folder alone imports all
 * others of `shared/`, so that no service wires them by hand.
 */
import { hostname } from "node:os";
import { isMainThread, threadId } from "node:worker_threads";
import type { Bus } from "../bus/bus.ts";
import { connectBus } from "../bus/connection.ts";
import { fleetStreams } from "../bus/streams/streams.ts";
import { tlsOf } from "../bus/tls-settings.ts";
import { FleetError } from "../protocol/errors.ts";
import { type Format, openFormat } from "../records/kv/format.ts";
import { createLeaderLeases, type LeaderLeases } from "../records/leader/leader-lease.ts";
import { createDiskSpace, type DiskPlace, type DiskSpace } from "../runtime/disk-space.ts";
import type { Logger } from "../runtime/observability/log.ts";
import { type Health, type HealthCheck, serveOps } from "../runtime/observability/ops-server.ts";
import { startTracing } from "../runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../runtime/process/service.ts";
import { type Closers, createClosers } from "../runtime/process/shutdown.ts";
import { exitCodes, refusedStart, StartupError } from "../runtime/process/startup.ts";
import type { ConfigOf } from "../runtime/settings/config.ts";
import { openStore } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import { type ArtifactHolding, artifactStreams, openArtifacts } from "./artifacts.ts";
import { serveDiagnosis } from "./diagnosis.ts";
import { type Mirror, openMirror } from "./mirror.ts";
import { requireNewestEvent } from "./newest-event.ts";
import {
  absoluteStoreUrl,
  type PlatformCheck,
  type platformFields,
  storeFolder,
} from "./service-settings.ts";
import { openSigning } from "./signing/signing.ts";
import { endOfStore } from "./silent-store.ts";
import {
  type EncryptionKeys,
  encryptionState,
  openEncryptionOf,
  type StoreEncryption,
} from "./store/encryption.ts";
import { START_STORE, STATED_REFUSALS, storeProblem } from "./store/store-problem.ts";
import { startStreamInspection } from "./stream-inspection.ts";

const CHECK_MS = 1_500;
const BUS_ANSWER_MS = 15_000;

export interface PlatformOptions extends Omit<ConfigOf<typeof platformFields>, "opsPort"> {
  /** null: this process or thread has no operations port. */
  readonly opsPort: number | null;
  readonly service: string;
  /** The folder of a standalone fleet. */
  readonly home?: string;
  readonly storeUrl: string;
  readonly busUrl: string;
  readonly busMonitorUrls?: string | (() => string | undefined) | undefined;
  readonly busCredentials?: string | undefined;
  readonly tlsCa?: string | undefined;
  readonly tlsCert?: string | undefined;
  readonly tlsKey?: string | undefined;
  /** `off`: the bus has no credentials. */
  readonly auth: "on" | "off";
  /** undefined: three copies of each stream where the bus has three servers, otherwise one. */
  readonly streamReplicas?: number | undefined;
  /** The folder of the bus's streams, if the bus belongs to this fleet. */
  readonly busFolder?: string | undefined;
  /** The disk space of all streams of the server together. */
  readonly streamBytes?: number;
}

export interface Platform extends ServiceContext {
  readonly store: Store;
  /** null: the rows of the store are not encrypted. */
  readonly encryption: EncryptionKeys | null;
  readonly bus: Bus;
  /**
   * A separate connection for background jobs, so that a burst of requests cannot delay the events of earlier
   * commits.
   */
  readonly backgroundBus: Bus;
  readonly format: Format;
  /** The name of this process, or this thread of it, in leases and audit entries. */
  readonly instance: string;
  /** The leases of its background jobs. */
  readonly leases: LeaderLeases;
  readonly opsPort: number;
  /** The checks that must pass for the services to work. */
  readonly checks: Readonly<Record<PlatformCheck, HealthCheck>>;
  readonly disk: DiskSpace;
  /** undefined: there is no file mirror. */
  readonly mirror?: Mirror | undefined;
  /** undefined: the fleet stores no artifacts. */
  readonly artifacts?: ArtifactHolding | undefined;
  readonly closers: Closers;
  /** To be called when all services of the process have started: it is ready from then until it stops. */
  readonly markServing: () => void;
  /** Closes everything that was opened and added, in reverse order. */
  readonly stop: Stop;
}

export function instanceName(): string {
  const host = hostname()
    .replace(/[^A-Za-z0-9_-]/g, "-")
    .slice(0, 40);
  return isMainThread ? `${host}-${process.pid}` : `${host}-${process.pid}-${threadId}`;
}

/** Throws StartupError with a hint; everything that was open by then is closed again. */
export async function openPlatform(context: ServiceContext, options: PlatformOptions): Promise<Platform> {
  const { log } = context;
  log.level = options.logLevel;
  requireCredentials(options, log);
  const closers = createClosers(log, context.clock);
  const serving = createServing();
  const stop = () => {
    serving.end();
    return closers.close({ timeoutMs: options.stopTimeout });
  };
  try {
    const tracing = await startTracing({ service: options.service, endpoint: options.otlpEndpoint, log });
    closers.add("tracing", () => tracing.stop());
    const engine = await openedStore(options.storeUrl, log);
    const storeEnd = endOfStore(engine, context, options.stopTimeout);
    closers.add("store", storeEnd.close);
    const encryption = await openedEncryption(engine, options, log);
    const opened = encryption.store;
    const format = await openedFormat(opened, options.storeUrl);
    logRestore(format, log);
    const instance = instanceName();
    const connect = () => connectedBus(options, instance, format, log);
    const { bus, backgroundBus } = await openBuses(connect, closers);
    await proveBus(bus, options, log);
    await refuseOlderCopy(opened, bus, options.storeUrl);
    const { store, state: signing, stop: stopSigning } = await openSigning(context, opened, options);
    closers.add("signing key", stopSigning);
    const inspection = startStreamInspection({ ...context, buses: [bus, backgroundBus] });
    closers.add("stream inspection", inspection.stop);
    const disk = openDisks(options, context);
    const checks = checksOf(store, bus, { streams: inspection.check, disk: disk.check });
    const ops = await serveOps({
      host: options.opsHost,
      port: options.opsPort,
      metrics: context.metrics.registry,
      log,
      // A balancer or an operator that replaces processes one by one waits for it.
      checks: { ...checks, service: serving.check },
      identity: { service: options.service, pid: process.pid, home: options.home },
    });
    closers.add("operations port", () => ops.stop());
    const facts = { findings: inspection.findings, signing, encryption: () => encryptionState(encryption) };
    const own = { service: options.service, instance, backgroundBus, ...facts };
    closers.add("diagnosis", await serveDiagnosis({ ...context, ...own, bus, store, format, disk }));
    return {
      ...context,
      mirror: openMirror(options, context.clock),
      artifacts: openArtifacts(options, { format, bus, clock: context.clock }),
      store,
      encryption: encryption.keys,
      bus,
      backgroundBus,
      format,
      instance,
      leases: createLeaderLeases(store, instance, () => context.clock.now()),
      opsPort: ops.port,
      checks,
      disk,
      closers,
      markServing: serving.begin,
      stop: storeEnd.during(stop),
    };
  } catch (error) {
    await stop().catch((second: unknown) =>
      log.error({ error: second }, "closing after a failed start failed"),
    );
    throw error;
  }
}

function checksOf(
  store: Store,
  bus: Bus,
  others: Pick<Platform["checks"], "streams" | "disk">,
): Platform["checks"] {
  return {
    store: () => store.health({ timeoutMs: CHECK_MS }),
    bus: () => bus.health({ timeoutMs: CHECK_MS }),
    ...others,
  };
}

/** Whether the services of the process have started and do not stop. */
function createServing() {
  let isServing = false;
  return {
    begin(): void {
      isServing = true;
    },
    end(): void {
      isServing = false;
    },
    check: async (): Promise<Health> => ({
      ok: isServing,
      detail: isServing ? "it serves" : "it starts or stops",
    }),
  };
}

/** A service that forgot its file would work on an open bus, where every program may act as any agent. */
function requireCredentials({ auth, busCredentials, service }: PlatformOptions, log: Logger): void {
  if (busCredentials !== undefined) return;
  if (auth === "off") {
    // The standalone fleet has warned once for all its threads.
    if (service !== "standalone")
      log.warn("FLEET_AUTH is off: every program that reaches the bus may act as any agent");
    return;
  }
  throw new StartupError("the service has no credentials for the bus", {
    exitCode: exitCodes.config,
    details: { setting: "FLEET_NATS_CREDS", service },
    hint: "run `fleet access init DIR` and set FLEET_NATS_CREDS to the file of the service in DIR; FLEET_AUTH=off is for closed test networks",
  });
}

function openDisks(options: PlatformOptions, { clock }: ServiceContext): DiskSpace {
  return createDiskSpace(diskPlaces(options), { minFreeBytes: options.diskMinFree, clock });
}

/** The folders on this machine. The store is open, so its folder exists. */
function diskPlaces({ storeUrl, busFolder }: PlatformOptions): DiskPlace[] {
  const store = storeFolder(absoluteStoreUrl(storeUrl));
  return [
    ...(store === undefined ? [] : [{ use: "store", path: store } as const]),
    ...(busFolder === undefined ? [] : [{ use: "bus", path: busFolder } as const]),
  ];
}

async function openedStore(storeUrl: string, log: Logger): Promise<Store> {
  try {
    const store = await openStore(absoluteStoreUrl(storeUrl));
    log.info({ engine: store.name, store: storeUrl }, "store opened");
    return store;
  } catch (error) {
    throw storeProblem(error, storeUrl, "check FLEET_STORE, or stop the process that holds the store");
  }
}

async function openedEncryption(
  engine: Store,
  { storeUrl, encryptionKeys }: PlatformOptions,
  log: Logger,
): Promise<StoreEncryption> {
  const encryption = await openEncryptionOf(engine, storeUrl, encryptionKeys);
  if (encryption.keys !== null)
    log.info({ root_key: encryption.keys.ring.buckets.firstRoot }, "the rows of the store are encrypted");
  return encryption;
}

/** Operators see in every later log that what agents remember may be of a lost future. */
function logRestore({ incarnation, restored }: Format, log: Logger): void {
  if (restored === undefined) return;
  const { at, backup_at } = restored;
  log.info({ incarnation, restored_at: at, backup_at }, "the store was restored from a backup");
}

/** The first use of the store: a store of several machines shows only here whether it is reachable. */
async function openedFormat(store: Store, storeUrl: string): Promise<Format> {
  try {
    return await openFormat(store);
  } catch (error) {
    if (error instanceof FleetError && STATED_REFUSALS.has(error.code))
      throw refusedStart(error, { store: storeUrl });
    throw storeProblem(error, storeUrl, START_STORE);
  }
}

/** The store may have become unavailable since it was opened. */
async function refuseOlderCopy(store: Store, bus: Bus, storeUrl: string): Promise<void> {
  try {
    await requireNewestEvent(store, bus, storeUrl);
  } catch (error) {
    throw storeProblem(error, storeUrl, START_STORE);
  }
}

/** Two connections, so that work in the background does not delay answers. */
async function openBuses(connect: () => Promise<Bus>, closers: Closers) {
  const bus = await connect();
  closers.add("bus", () => bus.close());
  const backgroundBus = await connect();
  closers.add("background bus", () => backgroundBus.close());
  return { bus, backgroundBus };
}

async function connectedBus(
  options: PlatformOptions,
  instance: string,
  format: Format,
  log: Logger,
): Promise<Bus> {
  try {
    return await connectBus({
      url: options.busUrl,
      name: `${options.service}/${instance}`,
      service: options.service,
      identity: instance.slice(0, 64),
      log,
      messageKey: format.message_key,
      answerWithinMs: BUS_ANSWER_MS,
      ...tlsOf(options),
      ...(options.busMonitorUrls !== undefined && { monitorUrls: options.busMonitorUrls }),
      ...(options.busCredentials !== undefined && { credentials: { credsFile: options.busCredentials } }),
    });
  } catch (error) {
    if (error instanceof StartupError) throw error;
    throw new StartupError("the bus cannot be reached", {
      exitCode: 69,
      details: { url: options.busUrl, problem: error instanceof Error ? error.message : String(error) },
      hint: options.busUrl.startsWith("tls:")
        ? "start a nats-server with JetStream and TLS there, or set FLEET_NATS_CA to the authority of its certificate"
        : "start a nats-server with JetStream there, or set FLEET_URL",
      cause: error,
    });
  }
}

/** A server that acknowledges before it has written would lose events and queued commands in a power cut. */
async function proveBus(bus: Bus, options: PlatformOptions, log: Logger): Promise<void> {
  const { streamBytes, streamReplicas: replicas } = options;
  const limits = {
    ...(streamBytes !== undefined && { storageBytes: streamBytes }),
    ...(replicas !== undefined && { replicas }),
  };
  await bus.reconcileStreams([...fleetStreams(limits), ...artifactStreams(options, limits)]);
  const { version, syncAlways, unsafe, silent } = await bus.proveDurability();
  // Also one that this connection does not lead to: it has copies of the streams, and the next connection may lead there.
  if (unsafe.length > 0) {
    throw new StartupError("the bus acknowledges before it has written to disk", {
      exitCode: 78,
      details: { version, servers: unsafe },
      hint: "set `sync_interval: always` in the jetstream block of each server",
    });
  }
  if (syncAlways === "unknown") {
    log.warn({ version }, "the bus's durability is not proven: no monitoring address is known");
  }
  if (silent.length > 0)
    log.warn({ addresses: silent }, "no server of the bus answers at a monitoring address");
  log.info({ version, sync_always: syncAlways }, "bus connected");
}
