/**
 * Reconciles the server's streams with their specification and never loses a message. Missing streams are
 * created, and limits only grow. A setting that cannot be changed in place (retention, storage, the form of
 * stored subjects) stops the process with both values. The result is read back, because older servers accept
 * unknown fields and drop them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  type StreamConfig,
} from "@nats-io/jetstream";
import { ERROR_TABLE } from "../../protocol/errors.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import { StartupError } from "../../runtime/process/startup.ts";
import { busError, streamError } from "../bus-errors.ts";
import { type StreamSpec, settingsVersionOf, streamConfig } from "./streams.ts";

/** Another process created the stream after we looked for it. */
const NAME_IN_USE = 10058;
/** Of several processes that create a stream at once, the server may reserve the disk for each until one has it. */
const INSUFFICIENT_STORAGE = 10047;
const CREATE_ATTEMPTS = 5;
const CREATE_PAUSE_MS = 200;
const FIXED = ["retention", "storage"] as const;
/** The server writes "no limit" as 0 or -1. A higher limit is safe, a lower one is not. */
const GROWING = ["max_age", "max_bytes", "max_msg_size", "duplicate_window", "num_replicas"] as const;
const FREE = [
  "discard",
  "allow_direct",
  "allow_atomic",
  "allow_rollup_hdrs",
  "max_msgs",
  "max_msgs_per_subject",
  "no_ack",
] as const;
/** The server sets these, and never takes them back. */
const DENIALS = ["deny_delete", "deny_purge"] as const;

/** The copies of a stream on a bus that has so many servers. */
const CLUSTER_COPIES = 3;

export interface ReconcileAccess {
  readonly manager: JetStreamManager;
  readonly log: Logger;
  /** The server knows atomic batches. */
  readonly atomic: boolean;
  /** The server belongs to a cluster, of any number of servers. */
  readonly clustered: boolean;
}

/** The copies that a stream should have on this bus. */
export const wantedCopies = ({ replicas }: StreamSpec, { clustered }: ReconcileAccess): number =>
  replicas !== "auto" ? replicas : clustered ? CLUSTER_COPIES : 1;

export async function reconcileStream(access: ReconcileAccess, spec: StreamSpec): Promise<StreamConfig> {
  return growCopies(access, spec, await reconcileLimits(access, spec));
}

/**
 * Raises the copies of a stream without a fixed number when the cluster has servers for them. A bus of fewer servers keeps what it has, so
 * the first server of a cluster may start alone. Throws BusError if the server does not answer.
 */
export async function growCopies(
  access: ReconcileAccess,
  spec: StreamSpec,
  config: StreamConfig,
): Promise<StreamConfig> {
  const { manager, log, atomic } = access;
  const wanted = wantedCopies(spec, access);
  if (spec.replicas !== "auto" || config.num_replicas >= wanted) return config;
  // The number of copies may be its choice.
  if (isNewer(config, streamConfig(spec, atomic))) return config;
  const facts = { stream: spec.name, copies: config.num_replicas, wanted };
  try {
    await manager.streams.update(spec.name, { ...config, num_replicas: wanted });
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw busError(error, { stream: spec.name });
    log.warn({ ...facts, problem: error.message }, "stream has fewer copies than a cluster should keep");
    return config;
  }
  log.info(facts, "copies of a stream raised");
  return (await read(manager, spec.name)) ?? config;
}

async function reconcileLimits(
  { manager, log, atomic }: ReconcileAccess,
  spec: StreamSpec,
): Promise<StreamConfig> {
  const wanted = streamConfig(spec, atomic);
  const found = (await read(manager, spec.name)) ?? (await create(manager, wanted));
  if (found === "created") {
    const made = await read(manager, spec.name);
    log.info({ stream: spec.name, max_bytes: spec.maxBytes }, "stream created");
    return proven(spec.name, wanted, made);
  }
  for (const field of FIXED) {
    if (found[field] !== wanted[field])
      throw refused(spec.name, field, wanted[field], found[field], isNewer(found, wanted));
  }
  requireForm(wanted, found);
  const changes = safeChanges(found, wanted, log);
  if (Object.keys(changes).length === 0) return found;
  await write(() => manager.streams.update(spec.name, { ...found, ...changes }), spec.name);
  log.info({ stream: spec.name, fields: Object.keys(changes) }, "stream updated");
  return proven(spec.name, changes, await read(manager, spec.name));
}

async function read(manager: JetStreamManager, name: string): Promise<StreamConfig | undefined> {
  try {
    return (await manager.streams.info(name)).config;
  } catch (error) {
    if (errorCode(error) === JetStreamApiCodes.StreamNotFound) return undefined;
    throw busError(error, { stream: name });
  }
}

async function create(
  manager: JetStreamManager,
  wanted: Partial<StreamConfig> & { name: string },
): Promise<StreamConfig | "created"> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await manager.streams.add(wanted);
      return "created";
    } catch (error) {
      const code = errorCode(error);
      const mayExist = code === NAME_IN_USE || code === INSUFFICIENT_STORAGE;
      const existing = mayExist ? await read(manager, wanted.name) : undefined;
      if (existing !== undefined) return existing;
      if (code !== INSUFFICIENT_STORAGE || attempt === CREATE_ATTEMPTS)
        return write(() => Promise.reject(error), wanted.name);
      await sleep(CREATE_PAUSE_MS);
    }
  }
}

function errorCode(error: unknown): number | undefined {
  return error instanceof JetStreamApiError ? error.code : undefined;
}

/** A refusal by the server is a problem of the setup. For any other failure the bus is unavailable. */
async function write<T>(change: () => Promise<T>, stream: string): Promise<T> {
  try {
    return await change();
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw busError(error, { stream });
    const failure = streamError({ err_code: error.code, description: error.message }, { stream });
    throw new StartupError("the server refused a stream", {
      exitCode: ERROR_TABLE.UNAVAILABLE.exit,
      details: failure.details,
      hint:
        failure.kind === "stream_full"
          ? "give JetStream more disk, or the streams less (see max_file_store)"
          : "see the stream's configuration with: nats stream info",
      cause: error,
    });
  }
}

/** Whether a newer version of Fleet has set the stream. */
const isNewer = (found: Partial<StreamConfig>, wanted: Partial<StreamConfig>): boolean =>
  settingsVersionOf(found) > settingsVersionOf(wanted);

function safeChanges(found: StreamConfig, wanted: Partial<StreamConfig>, log: Logger): Partial<StreamConfig> {
  if (isNewer(found, wanted)) {
    log.info(
      { stream: found.name, settings: settingsVersionOf(found), own: settingsVersionOf(wanted) },
      "stream left as a newer version of Fleet has set it",
    );
    return {};
  }
  const changes: Record<string, unknown> = {};
  if (settingsVersionOf(found) < settingsVersionOf(wanted))
    changes.metadata = { ...found.metadata, ...wanted.metadata };
  const missing = (wanted.subjects ?? []).filter((subject) => !found.subjects.includes(subject));
  if (missing.length > 0) changes.subjects = [...found.subjects, ...missing];
  for (const field of FREE) {
    if (wanted[field] !== undefined && (found[field] ?? false) !== wanted[field])
      changes[field] = wanted[field];
  }
  for (const field of DENIALS) {
    if (wanted[field] === true && found[field] !== true) changes[field] = true;
  }
  for (const field of GROWING) {
    if (wanted[field] === undefined) continue;
    const [have, want] = [limit(found[field]), limit(wanted[field])];
    if (want > have) changes[field] = wanted[field];
    if (want < have)
      log.warn({ stream: found.name, field, found: have, wanted: want }, "stream limit left as it is");
  }
  return changes as Partial<StreamConfig>;
}

/** The settings with which Fleet cannot work, or works worse. A higher limit is none, nor is another choice of a newer version. */
export function streamDifferences(found: StreamConfig, wanted: Partial<StreamConfig>): string[] {
  const fixed = isNewer(found, wanted);
  const fields: string[] = (fixed ? [...FIXED] : [...FIXED, ...FREE]).filter(
    (field) => wanted[field] !== undefined && (found[field] ?? false) !== wanted[field],
  );
  // Nothing can take back a denial too many, which a stream of an earlier version has.
  if (!fixed) fields.push(...DENIALS.filter((field) => wanted[field] === true && found[field] !== true));
  const isSmaller = (field: (typeof GROWING)[number]) =>
    wanted[field] !== undefined && limit(wanted[field]) > limit(found[field]);
  if (!fixed) fields.push(...GROWING.filter(isSmaller));
  const [have, want] = [found.subject_transform, wanted.subject_transform];
  if (have?.src !== want?.src || have?.dest !== want?.dest) fields.push("subject_transform");
  if (!fixed && [...found.subjects].sort().join() !== [...(wanted.subjects ?? [])].sort().join())
    fields.push("subjects");
  return fields;
}

function limit(value: number | undefined): number {
  return value === undefined || value <= 0 ? Number.POSITIVE_INFINITY : value;
}

/** Under another form, a task's next commands would have other subjects and overtake its earlier ones. */
function requireForm(spec: Partial<StreamConfig>, stream: StreamConfig): void {
  const { name = "", subject_transform: wanted } = spec;
  const { subject_transform: found } = stream;
  if (wanted?.src === found?.src && wanted?.dest === found?.dest) return;
  throw refused(name, "subject_transform", wanted, found, isNewer(stream, spec));
}

function proven(name: string, wanted: Partial<StreamConfig>, made: StreamConfig | undefined): StreamConfig {
  if (made === undefined) throw refused(name, "name", name, "no such stream");
  for (const field of [...FIXED, ...GROWING, ...FREE]) {
    if (wanted[field] === undefined) continue;
    const same =
      typeof wanted[field] === "number"
        ? limit(wanted[field]) === limit(made[field] as number)
        : wanted[field] === (made[field] ?? false);
    if (!same) throw refused(name, field, wanted[field], made[field]);
  }
  const lost = (wanted.subjects ?? []).filter((subject) => !made.subjects.includes(subject));
  if (lost.length > 0) throw refused(name, "subjects", wanted.subjects, made.subjects);
  if (wanted.subject_transform !== undefined) requireForm(wanted, made);
  return made;
}

function refused(
  stream: string,
  field: string,
  wanted: unknown,
  found: unknown,
  newer = false,
): StartupError {
  if (newer)
    return new StartupError("a newer version of Fleet has set a stream", {
      exitCode: ERROR_TABLE.UNSUPPORTED_VERSION.exit,
      details: { code: "UNSUPPORTED_VERSION", stream, field, wanted, found: found ?? "nothing" },
      hint: "use the version of Fleet that set it, or a newer one; its messages are unchanged",
    });
  return new StartupError("a stream has a setting that Fleet cannot work with", {
    exitCode: ERROR_TABLE.UNAVAILABLE.exit,
    details: { stream, field, wanted, found: found ?? "nothing" },
    hint: "back up the stream and remove it; Fleet creates it again",
  });
}
