/**
 * The streams of Fleet, as data. Every stream has a size limit, because one stream that fills the disk makes
 * all others fail. Events are also in the store, so a full stream drops the oldest and refuses none. Queued
 * commands and dead letters are stored nowhere else, so a full stream refuses new ones and drops none.
 */
import type { StreamConfig } from "@nats-io/jetstream";
import { LIMITS } from "../../protocol/limits.ts";
import { ARTIFACT_BUCKET } from "../../protocol/object-bucket.ts";
import { STREAMS, SUBJECTS } from "../../protocol/subjects.ts";

/**
 * The version of the settings of streams and durable consumers, which each of them has in its metadata. To be raised with every change of a
 * setting: a service leaves what a newer version has set, so that two versions do not change a stream in turns.
 */
export const SETTINGS_VERSION = 2;
const SETTINGS_MEMBER = "fleet.settings";

type Metadata = Readonly<Record<string, string>>;

export const settingsMetadata = (version = SETTINGS_VERSION): Metadata => ({
  [SETTINGS_MEMBER]: String(version),
});

/** The version that set a stream or consumer; 0: one without versions. */
export const settingsVersionOf = ({ metadata }: { readonly metadata?: Metadata | undefined }): number =>
  Number(metadata?.[SETTINGS_MEMBER] ?? 0) || 0;

/** Copies on servers of a cluster. `auto`: three where the bus has three servers, otherwise one. */
export type Replicas = number | "auto";

export interface StreamSpec {
  /** Default: {@link SETTINGS_VERSION}. */
  readonly settings?: number;
  readonly name: string;
  readonly subjects: readonly string[];
  readonly retention: "limits" | "workqueue" | "interest";
  readonly storage: "file" | "memory";
  /** A full stream drops its oldest messages (`old`) or refuses the new one (`new`). */
  readonly discard: "old" | "new";
  /** 0 keeps messages forever. */
  readonly maxAgeMs: number;
  readonly maxBytes: number;
  readonly maxMessageBytes: number;
  /** A new message replaces the oldest of its subject beyond this count. Default: no limit. */
  readonly maxPerSubject?: number;
  /** A message id that is repeated within this time is a duplicate. */
  readonly duplicateWindowMs: number;
  readonly replicas: Replicas;
  /** Accepts atomic batches, on servers that know them. */
  readonly atomic: boolean;
  /**
   * Forbids the deletion of single messages, or a purge. The server never takes a denial back. Dead letters are removed one by one, and so are the
   * alerts, offers and exit reports of a shredded task.
   */
  readonly denies: readonly ("deny_delete" | "deny_purge")[];
  /** A message may replace all earlier ones of its subject. */
  readonly rollups?: boolean;
  /** Messages are stored under a different subject than published. `to` has the server's notation. */
  readonly storedAs?: { readonly from: string; readonly to: string };
}

const DAY_MS = 86_400_000;
const MIB = 1024 * 1024;

const DENIES_ALL = ["deny_delete", "deny_purge"] as const;
const DENIES_PURGE = ["deny_purge"] as const;

const COMMON = {
  retention: "limits",
  storage: "file",
  discard: "old",
  duplicateWindowMs: 5 * 60_000,
  maxMessageBytes: 256 * 1024,
  atomic: true,
  denies: DENIES_ALL,
} as const;

/** For messages that are stored nowhere else. */
const KEPT = {
  retention: "limits",
  storage: "file",
  discard: "new",
  maxAgeMs: 0,
  duplicateWindowMs: 5 * 60_000,
  atomic: false,
  denies: DENIES_ALL,
} as const;

/** `storageBytes` is the disk limit of the server. The streams together take at most 80 % of it. */
export function fleetStreams(o: { storageBytes?: number; replicas?: Replicas } = {}): StreamSpec[] {
  const { storageBytes = Number.POSITIVE_INFINITY, replicas = "auto" } = o;
  const share = (wanted: number, part: number) => Math.floor(Math.min(wanted, storageBytes * part));
  return [
    {
      ...COMMON,
      name: STREAMS.events,
      subjects: [SUBJECTS.everyEvent],
      maxAgeMs: 7 * DAY_MS,
      maxBytes: share(4096 * MIB, 0.26),
      replicas,
    },
    {
      ...COMMON,
      name: STREAMS.alerts,
      subjects: [SUBJECTS.everyAlert],
      maxAgeMs: LIMITS.alerts_kept_ms,
      maxBytes: share(256 * MIB, 0.05),
      denies: DENIES_PURGE,
      replicas,
    },
    {
      ...KEPT,
      name: STREAMS.queue,
      subjects: [SUBJECTS.everyQueue],
      storedAs: { from: SUBJECTS.everyQueue, to: SUBJECTS.queuedForm },
      retention: "workqueue",
      maxBytes: share(8192 * MIB, 0.33),
      maxMessageBytes: LIMITS.payload_bytes_max - LIMITS.queue_headers_bytes_max,
      replicas,
    },
    {
      ...KEPT,
      name: STREAMS.dead,
      subjects: [SUBJECTS.everyDead],
      denies: DENIES_PURGE,
      maxBytes: share(1024 * MIB, 0.1),
      maxMessageBytes: LIMITS.payload_bytes_max,
      replicas,
    },
    {
      ...KEPT,
      name: STREAMS.offers,
      subjects: [SUBJECTS.everyOffer],
      retention: "workqueue",
      // Longer than the deadline of any offer. By then it was offered again, or its task waits for an
      // operator.
      maxAgeMs: DAY_MS,
      denies: DENIES_PURGE,
      maxBytes: share(256 * MIB, 0.04),
      maxMessageBytes: COMMON.maxMessageBytes,
      // Only the newest offer of a task is valid. Expired ones would stand first in the queue, and while
      // agents ask about each of them, the valid ones expire too.
      maxPerSubject: 1,
      atomic: true,
      replicas,
    },
    {
      ...COMMON,
      name: STREAMS.exits,
      subjects: [SUBJECTS.everyExit],
      maxAgeMs: 7 * DAY_MS,
      maxBytes: share(64 * MIB, 0.02),
      atomic: false,
      denies: DENIES_PURGE,
      replicas,
    },
  ];
}

/** Room for the records of the parts, beside their bytes. */
const RECORDS = 1.05;
const RECORD_BYTES_MAX = 4096;

/** The bucket of artifacts. `artifactBytes`: the limit of one tenant. Tenants that need more together need a larger stream. */
export function artifactStream({
  artifactBytes,
  storageBytes = Number.POSITIVE_INFINITY,
  replicas = "auto",
}: {
  readonly artifactBytes: number;
  readonly storageBytes?: number | undefined;
  readonly replicas?: Replicas;
}): StreamSpec {
  return {
    ...KEPT,
    name: ARTIFACT_BUCKET.stream,
    subjects: [ARTIFACT_BUCKET.everyContent, ARTIFACT_BUCKET.everyRecord],
    // A purge of its subjects removes an object.
    denies: ["deny_delete"],
    rollups: true,
    maxBytes: Math.floor(Math.min(artifactBytes * RECORDS, storageBytes * 0.15)),
    maxMessageBytes: LIMITS.artifact_part_bytes + RECORD_BYTES_MAX,
    replicas,
  };
}

const NANOS_PER_MS = 1_000_000;

/** The server's form. `atomic`: the server knows atomic batches. Older ones ignore the field silently. */
export function streamConfig(spec: StreamSpec, atomic: boolean): Partial<StreamConfig> & { name: string } {
  return {
    name: spec.name,
    subjects: [...spec.subjects],
    retention: spec.retention,
    storage: spec.storage,
    discard: spec.discard,
    max_age: spec.maxAgeMs * NANOS_PER_MS,
    max_bytes: spec.maxBytes,
    max_msg_size: spec.maxMessageBytes,
    max_msgs: -1,
    max_msgs_per_subject: spec.maxPerSubject ?? -1,
    no_ack: false,
    deny_delete: spec.denies.includes("deny_delete"),
    deny_purge: spec.denies.includes("deny_purge"),
    duplicate_window: spec.duplicateWindowMs * NANOS_PER_MS,
    ...(spec.replicas !== "auto" && { num_replicas: spec.replicas }),
    allow_direct: true,
    ...(spec.rollups && { allow_rollup_hdrs: true }),
    ...(spec.storedAs && { subject_transform: { src: spec.storedAs.from, dest: spec.storedAs.to } }),
    ...(atomic && spec.atomic && { allow_atomic: true }),
    metadata: settingsMetadata(spec.settings),
  };
}
