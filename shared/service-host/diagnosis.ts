/**
 * Answers `diagnose`. Every instance of every service has a subscription of its own, so that a question reaches all of them. Each part of
 * an answer has a deadline: a service whose store or bus is away reports that, and is not silent.
 */
import { type Bus, BusError } from "../bus/bus.ts";
import { serveEndpoint } from "../bus/request/endpoint.ts";
import { decodeBody, encodeBody } from "../integrity/wire.ts";
import { SCHEMA_VERSION } from "../protocol/checkpoint.ts";
import type { Diagnosis, EncryptionDiagnosis, SigningDiagnosis } from "../protocol/diagnosis.ts";
import type { DiskStatus, StreamFinding } from "../protocol/fleet-health.ts";
import { LIMITS } from "../protocol/limits.ts";
import { QUERY_SCHEMAS } from "../protocol/queries.ts";
import { SUBJECTS } from "../protocol/subjects.ts";
import { validate } from "../protocol/validation.ts";
import type { Format } from "../records/kv/format.ts";
import type { DiskSpace, DiskState } from "../runtime/disk-space.ts";
import { packageVersion } from "../runtime/process/installation.ts";
import type { ServiceContext, Stop } from "../runtime/process/service.ts";
import { recentResult } from "../runtime/recent-result.ts";
import type { Store } from "../store/store.ts";

const OP = "diagnose";
/** Questions that arrive together share the requests to the store and to the bus. */
const SHARED_MS = 500;

export interface DiagnosisParts extends ServiceContext {
  readonly service: string;
  readonly instance: string;
  readonly bus: Bus;
  /** The other connection of the service. */
  readonly backgroundBus: Bus;
  readonly store: Store;
  readonly format: Format;
  readonly disk: DiskSpace;
  readonly findings: () => Promise<StreamFinding[]>;
  readonly signing: () => SigningDiagnosis;
  readonly encryption: () => Promise<EncryptionDiagnosis>;
}

/** A service whose credentials are of an older version may not listen for questions. It works without. */
export async function serveDiagnosis(parts: DiagnosisParts): Promise<Stop> {
  const { bus, log, metrics, clock, service, instance } = parts;
  const examine = createExamination(parts);
  try {
    return await serveEndpoint(
      {
        bus,
        log,
        metrics,
        clock,
        service,
        subject: SUBJECTS.everyDiagnosis,
        queue: `${OP}=${instance}`,
        latency: metrics.checkpointReadLatencyMs,
        total: metrics.queriesTotal,
        opOf: () => OP,
        decode: decodeBody,
        encode: encodeBody,
      },
      async ({ body }) => {
        const received_ms = clock.now();
        validate(QUERY_SCHEMAS[OP], body);
        const result = { ...(await examine()), received_ms, answered_ms: clock.now() } satisfies Diagnosis;
        return { value: { status: "ok", result } };
      },
    );
  } catch (error) {
    if (!(error instanceof BusError) || error.kind !== "permission") throw error;
    log.warn(
      { hint: "run `fleet access init` again and give the service its new file" },
      "the service cannot answer `fleet doctor`: its credentials are of an older version",
    );
    return async () => {};
  }
}

/** The state of a disk as the protocol reports it. */
export const diskStatus = ({ uses, freeBytes, totalBytes, minFreeBytes, level }: DiskState): DiskStatus => ({
  disk_of: uses,
  free_bytes: freeBytes,
  total_bytes: totalBytes,
  min_free_bytes: minFreeBytes,
  state: level,
});

type Examination = Omit<Diagnosis, "received_ms" | "answered_ms">;

function createExamination(parts: DiagnosisParts): () => Promise<Examination> {
  const { clock, bus, backgroundBus, service, instance, format, disk, findings } = parts;
  const begin = clock.monotonic();
  const examine = async (): Promise<Examination> => {
    const [store, encryption, busDiagnosis, streamFindings] = await Promise.all([
      examineStore(parts),
      within(parts, parts.encryption(), null),
      within(
        parts,
        bus.diagnose(() => clock.now()),
        null,
      ),
      within(parts, findings(), []),
    ]);
    return {
      service,
      instance,
      version: packageVersion(),
      node: process.versions.node,
      uptime_ms: Math.round(clock.monotonic() - begin),
      layout: format.layout,
      schema_version: SCHEMA_VERSION,
      store,
      bus: busDiagnosis && {
        ...busDiagnosis,
        refused: [...new Set([...busDiagnosis.refused, ...backgroundBus.refusedRights()])],
      },
      findings: streamFindings,
      disks: disk.disks().map(diskStatus),
      signing: parts.signing(),
      ...(encryption !== null && { encryption }),
    };
  };
  return recentResult(examine, { maxAgeMs: SHARED_MS, clock });
}

async function examineStore({ store }: DiagnosisParts): Promise<Diagnosis["store"]> {
  const timeoutMs = LIMITS.diagnosis_part_ms;
  const [health, cluster] = await Promise.all([
    store.health({ timeoutMs }),
    store.clusterStatus?.({ timeoutMs }).catch((error: unknown) => String((error as Error).message)),
  ]);
  const isRead = typeof cluster === "object";
  return {
    engine: store.name,
    ok: health.ok,
    detail: health.detail,
    cluster: isRead ? cluster : null,
    cluster_problem: isRead ? null : (cluster ?? null),
  };
}

/** `otherwise` if the work fails or takes too long. The bus may be away while a question is answered. */
async function within<T>({ clock, log }: DiagnosisParts, work: Promise<T>, otherwise: T): Promise<T> {
  const ended = new AbortController();
  const overdue = clock.sleep(LIMITS.diagnosis_part_ms, ended.signal).then(() => otherwise);
  const failed = work.catch((error: unknown) => {
    log.warn({ error }, "a part of the diagnosis could not be read");
    return otherwise;
  });
  try {
    return await Promise.race([failed, overdue]);
  } finally {
    ended.abort();
  }
}
