/**
 * The answer of one service to `diagnose`: its versions, its clock, its disks, its store and its connection to the bus. Every service
 * answers, and `fleet doctor` compares the answers. It contains no content of tasks, and no secrets.
 */
import { z } from "zod";
import { diskStatusSchema, streamFindingSchema } from "./fleet-health.ts";
import { keyIdSchema } from "./signing-keys.ts";

/** The members that a schema names: a newer service may answer with more. */
type Named<T> = { readonly [Member in keyof T as string extends Member ? never : Member]: T[Member] };

/** FoundationDB's own view of its cluster. null: its status does not contain the fact. */
export const storeClusterSchema = z.looseObject({
  available: z.boolean(),
  quorum_reachable: z.boolean(),
  coordinators: z.int(),
  coordinators_unreachable: z.int(),
  /** Coordinators on other machines whose addresses have no TLS. */
  coordinators_plain: z.int(),
  cluster_file_current: z.boolean().nullable(),
  redundancy: z.string().nullable(),
  /** The state of the data, such as `healthy` or `healing`. */
  data_state: z.string().nullable(),
  data_healthy: z.boolean().nullable(),
  /** Zones that may fail before data is lost, and before the database is unavailable. */
  failures_without_loss: z.int().nullable(),
  failures_available: z.int().nullable(),
  processes: z.int(),
  processes_excluded: z.int(),
  processes_degraded: z.int(),
  versions: z.array(z.string()),
  locked: z.boolean(),
  /** What slows the database down. null: the workload alone. */
  limited_by: z.string().nullable(),
  /** Of the fullest disk, from 0 to 1. */
  disk_free_ratio: z.number().nullable(),
  /** The names of its messages. */
  messages: z.array(z.string()),
});
export type StoreCluster = Named<z.infer<typeof storeClusterSchema>>;

const streamSchema = z.looseObject({
  name: z.string(),
  copies: z.int(),
  copies_wanted: z.int(),
  /** null: the stream has no leader. Absent: its server belongs to no cluster. */
  leader: z.string().nullable().exactOptional(),
  followers: z.array(
    z.looseObject({ server: z.string(), current: z.boolean(), offline: z.boolean(), behind: z.int() }),
  ),
  bytes: z.number(),
  bytes_max: z.number(),
});

const consumerSchema = z.looseObject({
  stream: z.string(),
  name: z.string(),
  /** Messages that were not delivered yet, and those that were delivered and not acknowledged. */
  pending: z.int(),
  unacknowledged: z.int(),
});

/** `server` null: nothing answers at the address, or a server of another bus. `sync_always` null: so, or the server keeps no streams. */
const monitoredServerSchema = z.looseObject({
  address: z.string(),
  server: z.string().nullable(),
  server_version: z.string().nullable(),
  sync_always: z.boolean().nullable(),
});

/** The bus from the connection of one service. */
export const busDiagnosisSchema = z.looseObject({
  server: z.string(),
  server_version: z.string(),
  /** null: the server belongs to no cluster. */
  cluster: z.string().nullable(),
  encrypted: z.boolean(),
  /** Whether the connection stays on the machine of the service. */
  loopback: z.boolean(),
  /** Whether the server syncs to disk before it acknowledges. null: its monitoring address is not known, or does not answer. */
  sync_always: z.boolean().nullable(),
  /** The names of the services' connections to the servers whose monitoring address answers. null: there is none. */
  connections: z.array(z.string()).nullable(),
  /** One for each monitoring address that the service has. Absent: the service is of an older version. */
  servers: z.array(monitoredServerSchema).exactOptional(),
  /** The clock of the bus minus that of the service. null: no stream answers. */
  clock: z.looseObject({ offset_ms: z.number(), uncertainty_ms: z.number() }).nullable(),
  /** `bytes_max` null: the account has no limit of its own. */
  storage: z.looseObject({ bytes: z.number(), bytes_max: z.number().nullable() }).nullable(),
  streams: z.array(streamSchema),
  /** Those with messages to deliver or to acknowledge, without the consumers of offers, the largest backlog first. */
  consumers: z.array(consumerSchema),
  /** The rights that the server refused to the service since its start, such as `publish fleet.alert`. */
  refused: z.array(z.string()),
});
export type BusDiagnosis = Named<z.infer<typeof busDiagnosisSchema>>;

/** The key with which a service signs. Its private part is in the file. */
export const signingDiagnosisSchema = z.looseObject({
  /** null: the service does not sign. */
  key_id: keyIdSchema.nullable(),
  /** null: the setting names none. */
  file: z.string().nullable(),
  /** The bits of its mode. null: it cannot be read. */
  file_mode: z.int().nullable(),
});
export type SigningDiagnosis = Named<z.infer<typeof signingDiagnosisSchema>>;

/** The encryption of the store's rows. No secret is in it. */
export const encryptionDiagnosisSchema = z.looseObject({
  /** `converting`: rows from before the encryption are encrypted in the background. */
  state: z.enum(["off", "converting", "complete"]),
  began_at: z.string().exactOptional(),
  completed_at: z.string().nullable().exactOptional(),
  /** The rows that the conversion has encrypted. */
  converted_rows: z.int().exactOptional(),
  /** The time of the backup from which the store was restored. Absent: it was not. */
  restored_backup_at: z.string().exactOptional(),
  /** That backup had the rows of the store, and no other bytes of its file. Absent: not known, and it may have had free pages with plain bytes. */
  restored_rows_only: z.boolean().exactOptional(),
  /** The root key of new bucket keys. */
  root_key: z.string().exactOptional(),
  bucket_keys: z.int().exactOptional(),
  /** Their rows were changed: a backup has the sound ones. */
  bucket_keys_damaged: z.int().exactOptional(),
  /** Those that another root key wrapped, which is still needed. */
  bucket_keys_of_other_roots: z.int().exactOptional(),
  oldest_bucket_key_at: z.string().nullable().exactOptional(),
  /** Tenants whose bucket keys are being rotated. */
  tenants_in_rotation: z.int().exactOptional(),
  /** Tenants with as many bucket keys as they may have: a rotation gives them no new one. */
  tenants_at_key_limit: z.int().exactOptional(),
  /** Rotations that were requested, and whose bucket keys are not all there. */
  rotations_pending: z.int().exactOptional(),
  /** Data keys that the last walk of a rotation could not unwrap: a backup has the sound ones. */
  data_keys_damaged: z.int().exactOptional(),
  /** Tenants that the last walk of a rotation passed, because a root key of theirs cannot be used. */
  tenants_unavailable: z.int().exactOptional(),
  /** When a rotation that left keys tries them again. null: no rotation waits. */
  rotation_retry_at: z.string().nullable().exactOptional(),
});
export type EncryptionDiagnosis = Named<z.infer<typeof encryptionDiagnosisSchema>>;

/**
 * When all rows of a store with plain ones were encrypted. null: its file never had plain rows, or has some still. The file that a restore wrote has no
 * bytes of before, if all its rows were encrypted in the backup, and that had nothing else.
 */
export function conversionEnd(state: EncryptionDiagnosis): string | null {
  const { began_at: began, completed_at: end = null, converted_rows: rows = 0 } = state;
  const { restored_backup_at: backup = "", restored_rows_only: isOfRows = false } = state;
  if (state.state !== "complete" || end === null) return null;
  const hadPlainRows = rows > 0 || began !== end;
  return hadPlainRows && !(isOfRows && backup >= end) ? end : null;
}

export const diagnosisSchema = z.looseObject({
  /** `writer`, `reader`, `coordinator`, `watchdog`, or `standalone` for all of them in one process. */
  service: z.string(),
  instance: z.string(),
  version: z.string(),
  node: z.string(),
  uptime_ms: z.number(),
  /** The clock of the service when the question arrived and when it answered, in milliseconds since the epoch. */
  received_ms: z.number(),
  answered_ms: z.number(),
  /** The layout of the records, and the version of the schema of new checkpoints. */
  layout: z.int(),
  schema_version: z.string(),
  store: z.looseObject({
    engine: z.string(),
    ok: z.boolean(),
    detail: z.string(),
    /** null: the engine has no cluster, or its status cannot be read; then `cluster_problem` says why. */
    cluster: storeClusterSchema.nullable(),
    cluster_problem: z.string().nullable(),
  }),
  /** null: the bus did not answer the service in time. */
  bus: busDiagnosisSchema.nullable(),
  findings: z.array(streamFindingSchema),
  disks: z.array(diskStatusSchema),
  /** Absent: the service is of an older version. */
  signing: signingDiagnosisSchema.exactOptional(),
  encryption: encryptionDiagnosisSchema.exactOptional(),
});
export type Diagnosis = Named<z.infer<typeof diagnosisSchema>>;
