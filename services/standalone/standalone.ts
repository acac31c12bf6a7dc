/**
 * The standalone fleet: every service in one process, with the embedded store and a nats-server of its own. All its data is in one
 * folder. It stops in the reverse order of its start, and a kill loses nothing.
 */
import { join, relative } from "node:path";
import { ACCESS_FOLDER } from "../../shared/bus/access/local-credentials.ts";
import { openRootKeys } from "../../shared/integrity/encryption/root-keys.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { mergedMetrics } from "../../shared/runtime/observability/metrics.ts";
import { serveOps } from "../../shared/runtime/observability/ops-server.ts";
import { packageRoot } from "../../shared/runtime/process/installation.ts";
import { startMemoryRelease } from "../../shared/runtime/process/memory-release.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { type Closers, createClosers } from "../../shared/runtime/process/shutdown.ts";
import { writeWhole } from "../../shared/runtime/process/whole-file.ts";
import { CLIENT_FOLDER, RECORD_FILE } from "../../shared/sdk/fleet-home.ts";
import type { PlatformOptions } from "../../shared/service-host/platform.ts";
import { absoluteStoreUrl, ENCRYPTION_KEY, storeFolder } from "../../shared/service-host/service-settings.ts";
import { requireRestored } from "../../shared/store/lmdb/prepared-restore.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { readWatchdogConfig } from "../watchdog/config.ts";
import { readWriterConfig } from "../writer/config.ts";
import { keepOthersOut, openAccess } from "./access.ts";
import type { StandaloneConfig } from "./config.ts";
import { requireUsableFolder } from "./folder-check.ts";
import { openIdentity } from "./identity.ts";
import { type Listener, type OwnListener, readListener, readOwnListener } from "./nats/listener.ts";
import { superviseNatsServer } from "./nats/supervisor.ts";
import { reachable, requirePorts } from "./ports.ts";
import { openBusRefusals } from "./refusals/bus-refusals.ts";
import { writeClientFolder } from "./remote/client-folder.ts";
import { keepRenewed, openOwnCertificate } from "./remote/own-certificate.ts";
import { startGateway } from "./remote/own-gateway.ts";
import type { ServiceRules } from "./services.ts";
import { lockStore } from "./store-lock.ts";
import { createThreadCount } from "./thread-count.ts";
import { startThreadPool } from "./thread-pool.ts";

/** Other users may know the address, but not write it. */
const READABLE = 0o644;

export interface Standalone {
  readonly busUrl: string;
  readonly opsUrl: string;
  /** The HTTP API. undefined: switched off. */
  readonly gatewayUrl: string | undefined;
  readonly storeUrl: string;
  readonly home: string;
  readonly stop: Stop;
}

export async function start(
  context: ServiceContext & { readonly config: StandaloneConfig },
): Promise<Standalone> {
  const { config, log } = context;
  log.level = config.logLevel;
  const rules = { ...readWriterConfig(config), watchdog: readWatchdogConfig(config) };
  // Before anything is written: a fleet that would listen without walls leaves no trace.
  const planned = readOwnListener(config) ?? readListener(config);
  await requirePorts(config);
  const home = requireUsableFolder(config.home);
  const closers = createClosers(log, context.clock);
  // Each level first closes the levels above it, so their time limits add up.
  const stop = () => closers.close({ timeoutMs: 2 * config.stopTimeout });
  try {
    // First, so that a second fleet is refused before it touches data of the running one.
    const storeUrl = usableStoreUrl(config, home);
    const lock = lockStore(storeUrl);
    if (lock !== null) closers.add("store lock", async () => lock.release());
    keepOthersOut(home);
    const fleet = openIdentity(home);
    const access = config.auth === "off" ? undefined : await openAccess(home);
    if (access === undefined) log.warn("FLEET_AUTH is off: every local user may act as any agent");
    const listener = withCertificate(planned, home);
    const refusals = openBusRefusals(context, { config, home, fleet, address: () => ownBus });
    closers.add("refusals of a fleet that did not start", refusals.stop);
    const own = { listener, port: config.natsPort, fleet, log, claims: access?.claims };
    const server = await startBus(home, config, { ...own, onLine: refusals.onLine });
    const ownBus = { url: server.url, caFile: listener.tls?.caFile };
    closers.add("nats-server", () => server.stop());
    let gateway: Gateway | undefined;
    const reload = () => {
      server.current().kill("SIGHUP");
      gateway?.reloadCertificate();
    };
    closers.add("certificate", renewal(planned, home, { clock: context.clock, log, reload }));
    const opsPort = await startAll(context, closers, rules, {
      ...config,
      inThreads: lock !== null && config.threads !== 1,
      service: "standalone",
      home,
      busFolder: join(home, "nats"),
      storeUrl,
      busUrl: server.url,
      busCredentials: access?.credentialsFile,
      // A setting for another bus does not concern a bus without TLS.
      tlsCa: listener.tls?.caFile,
      busMonitorUrls: server.current().monitorUrl,
      streamBytes: server.current().storeBytesMax,
    });
    const { tls } = listener;
    gateway = await startGateway(context, { config, home, fleet, busUrl: server.url, tls });
    closers.add("gateway", () => gateway?.stop());
    // Before the services that its last report needs.
    closers.add("refusals of the bus", refusals.stop);
    const addresses = {
      busUrl: server.url,
      opsUrl: `http://${reachable(config.opsHost)}:${opsPort}`,
      gatewayUrl: gateway?.url,
      storeUrl,
      home,
    };
    recordAddresses(addresses, { fleet, listener, hasKeys: access !== undefined, isOwn: "hosts" in planned });
    return { ...addresses, stop };
  } catch (error) {
    await stop().catch((second: unknown) =>
      log.error({ error: second }, "closing after a failed start failed"),
    );
    throw error;
  }
}

/** Throws StartupError for a store that a restore has not finished. */
function usableStoreUrl({ storeUrl }: StandaloneConfig, home: string): string {
  const url = absoluteStoreUrl(storeUrl ?? `lmdb:${join(home, "store")}`);
  requireRestored(storeFolder(url));
  return url;
}

type BusOptions = Omit<Parameters<typeof superviseNatsServer>[0], "root" | "env" | "dir" | "maxPayloadBytes">;

async function startBus(home: string, { encryptionKeys }: StandaloneConfig, own: BusOptions) {
  const { env } = process;
  const maxPayloadBytes = LIMITS.message_bytes_max;
  const rootKeys = encryptionKeys && (await openRootKeys(encryptionKeys, { setting: ENCRYPTION_KEY, env }));
  return superviseNatsServer({
    ...{ root: packageRoot(), env, dir: join(home, "nats"), maxPayloadBytes, rootKeys },
    ...own,
  });
}

const tlsFolder = (home: string): string => join(home, "tls");

/** Makes the fleet's own certificate, if it has none of the user. */
function withCertificate(planned: Listener | OwnListener, home: string): Listener {
  if (!("hosts" in planned)) return planned;
  const { host, name, hosts } = planned;
  return { host, tls: { name, ...openOwnCertificate(tlsFolder(home), hosts) } };
}

function renewal(
  planned: Listener | OwnListener,
  home: string,
  parts: Parameters<typeof keepRenewed>[2],
): Stop {
  return "hosts" in planned ? keepRenewed(tlsFolder(home), planned.hosts, parts) : async () => {};
}

/** Clients on this machine find the fleet by its record, and recognise it by its identity. */
function recordAddresses(
  { busUrl, opsUrl, gatewayUrl, storeUrl, home }: Omit<Standalone, "stop">,
  o: { fleet: string; listener: Listener; hasKeys: boolean; isOwn: boolean },
): void {
  const { fleet, listener } = o;
  const busCa = listener.tls?.caFile;
  if (o.isOwn && busCa !== undefined) {
    const keys = o.hasKeys ? join(home, ACCESS_FOLDER) : undefined;
    writeClientFolder(join(home, CLIENT_FOLDER), { busUrl, opsUrl, gatewayUrl, fleet, caFile: busCa, keys });
  }
  // Last: where the record is, the rest is.
  const record = { busUrl, opsUrl, gatewayUrl, storeUrl, home, fleet, busCa, pid: process.pid };
  writeWhole(join(home, RECORD_FILE), `${JSON.stringify(record)}\n`, READABLE);
}

type Options = StandaloneConfig &
  Omit<PlatformOptions, "busMonitorUrls"> & {
    readonly busMonitorUrls?: string | undefined;
    readonly inThreads: boolean;
  };

/** Starts the services, in threads if the store allows it, and resolves with the operations port. */
async function startAll(
  context: ServiceContext & { readonly config: StandaloneConfig },
  closers: Closers,
  rules: ServiceRules,
  options: Options,
): Promise<number> {
  const { log, metrics, clock, config } = context;
  if (!options.inThreads) {
    // Imported only here: with service threads, the main thread does not load the services and their libraries.
    const { startServices } = await import("./services.ts");
    const platform = await startServices(context, options, { ...rules, coordinates: true });
    closers.add("services", () => platform.stop());
    return platform.opsPort;
  }
  const threads = await startThreadPool({
    threadCount: createThreadCount(config.threads),
    data: {
      options: { ...options, storeUrl: `${options.storeUrl}?shared`, opsPort: null },
      config: rules,
      pretty: process.stdout.isTTY === true,
    },
    log,
    clock,
  });
  closers.add("services", () => threads.stop());
  closers.add("memory release", startMemoryRelease({ clock, log }));
  const ops = await serveOps({
    host: config.opsHost,
    port: config.opsPort,
    metrics: mergedMetrics(metrics.registry, () => threads.metrics()),
    log,
    checks: threads.checks,
    identity: { service: options.service, pid: process.pid, home: options.home },
  });
  closers.add("operations port", () => ops.stop());
  return ops.port;
}

/** The text for the operator at a terminal. */
export function greeting({ busUrl, opsUrl, gatewayUrl, home }: Standalone, startedMs: number): string {
  return (
    `\nFleet is up (${(startedMs / 1_000).toFixed(1)} s).\n\n` +
    `  bus         ${busUrl}\n` +
    (gatewayUrl === undefined ? "" : `  HTTP API    ${gatewayUrl}/api/docs\n`) +
    `  operations  ${opsUrl}/readyz, ${opsUrl}/metrics\n` +
    `  data        ${relative(process.cwd(), home) || "."}/\n\n` +
    "In another terminal: npx fleet status. Ctrl-C stops it and keeps everything.\n\n"
  );
}
