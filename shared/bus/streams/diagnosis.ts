/** The bus as its server reports it, for `fleet doctor`: copies, backlogs, room, durability, and the clock of the server. */
import { JetStreamApiError, type StreamInfo } from "@nats-io/jetstream";
import type { ServerInfo } from "@nats-io/transport-node";
import type { BusDiagnosis } from "../../protocol/diagnosis.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { STREAMS } from "../../protocol/subjects.ts";
import type { BusLink } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import { type MonitoredServer, monitoredServers } from "../server-check.ts";
import { type ReconcileAccess, wantedCopies } from "./reconcile.ts";
import type { StreamSpec } from "./streams.ts";

type StreamDiagnosis = Pick<BusDiagnosis, "streams" | "consumers" | "clock" | "storage">;
type Consumer = BusDiagnosis["consumers"][number];
type ClockOffset = NonNullable<BusDiagnosis["clock"]>;

interface ConnectionFacts {
  readonly info: ServerInfo;
  readonly link: BusLink;
  readonly monitorUrls: string | undefined;
  /** The clock that the server's is compared with. */
  readonly now: () => number;
}

/** Throws BusError. */
export async function diagnoseBus(
  access: ReconcileAccess,
  specs: readonly StreamSpec[],
  { info, link, monitorUrls, now }: ConnectionFacts,
): Promise<Omit<BusDiagnosis, "refused">> {
  const { encrypted, loopback, serverName, serverVersion } = link;
  const [streams, servers] = await Promise.all([
    diagnoseStreams(access, specs, now),
    monitoredServers(info, monitorUrls),
  ]);
  const known = servers.flatMap(({ facts }) => facts ?? []);
  return {
    server: serverName,
    server_version: serverVersion,
    cluster: info.cluster ?? null,
    encrypted,
    loopback,
    sync_always: known.find(({ isOwn }) => isOwn)?.syncAlways ?? null,
    connections: known.length === 0 ? null : [...new Set(known.flatMap(({ connections }) => connections))],
    servers: servers.map(reported),
    ...streams,
  };
}

const reported = ({ address, facts }: MonitoredServer) => ({
  address,
  server: facts?.name ?? null,
  server_version: facts?.version ?? null,
  sync_always: facts?.syncAlways ?? null,
});

/** A stream that does not exist is left out: an inspection reports it. */
async function diagnoseStreams(
  access: ReconcileAccess,
  specs: readonly StreamSpec[],
  now: () => number,
): Promise<StreamDiagnosis> {
  try {
    const account = await access.manager.getAccountInfo();
    const found = await Promise.all(specs.map((spec) => readStream(access, spec, now)));
    const streams = found.flatMap((one) => one ?? []);
    return {
      streams: streams.map(({ stream }) => stream),
      consumers: largest(streams.flatMap(({ consumers }) => consumers)),
      clock: mostCertain(streams.flatMap(({ clock }) => clock ?? [])),
      storage: {
        bytes: account.storage,
        bytes_max: account.limits.max_storage > 0 ? account.limits.max_storage : null,
      },
    };
  } catch (error) {
    throw busError(error);
  }
}

async function readStream(access: ReconcileAccess, spec: StreamSpec, now: () => number) {
  const { manager } = access;
  try {
    const sent = now();
    const info = await manager.streams.info(spec.name);
    const received = now();
    return {
      stream: streamOf(info, wantedCopies(spec, access)),
      clock: offsetOf(info, sent, received),
      consumers: await consumersOf(manager, spec.name),
    };
  } catch (error) {
    if (error instanceof JetStreamApiError) return undefined;
    throw error;
  }
}

function streamOf({ config, state, cluster }: StreamInfo, wanted: number): BusDiagnosis["streams"][number] {
  return {
    name: config.name,
    copies: config.num_replicas,
    copies_wanted: wanted,
    // A server without a cluster names itself as the leader.
    ...(cluster?.name !== undefined && { leader: cluster.leader || null }),
    followers: (cluster?.replicas ?? []).map(({ name, current, offline, lag }) => ({
      server: name,
      current,
      offline: offline ?? false,
      behind: lag ?? 0,
    })),
    bytes: state.bytes,
    bytes_max: config.max_bytes,
  };
}

/** The answer was made between the two times. */
function offsetOf(info: StreamInfo, sent: number, received: number): ClockOffset | undefined {
  const at = Date.parse((info as { ts?: string }).ts ?? "");
  if (Number.isNaN(at)) return undefined;
  return { offset_ms: at - (sent + received) / 2, uncertainty_ms: (received - sent) / 2 };
}

function mostCertain(offsets: readonly ClockOffset[]): ClockOffset | null {
  return offsets.toSorted((a, b) => a.uncertainty_ms - b.uncertainty_ms)[0] ?? null;
}

/** The backlog of offers is no fault of a service, and its consumers have the names of tenants. */
async function consumersOf(manager: ReconcileAccess["manager"], stream: string): Promise<Consumer[]> {
  if (stream === STREAMS.offers) return [];
  const found: Consumer[] = [];
  for await (const { name, num_pending, num_ack_pending } of manager.consumers.list(stream)) {
    if (num_pending + num_ack_pending > 0)
      found.push({ stream, name, pending: num_pending, unacknowledged: num_ack_pending });
  }
  return found;
}

const largest = (consumers: readonly Consumer[]): Consumer[] =>
  consumers.toSorted((a, b) => b.pending - a.pending).slice(0, LIMITS.diagnosis_consumers_max);
