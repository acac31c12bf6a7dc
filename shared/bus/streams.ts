/**
 * The streams of Fleet, as data. Every stream has a size limit, because one stream that fills the disk makes all others fail;
 * the store is the truth, so events are dropped at the old end and never refused at the new one.
 */
import type { StreamConfig } from "@nats-io/jetstream";
import { STREAMS, SUBJECTS } from "../protocol/subjects.ts";

export interface StreamSpec {
  readonly name: string;
  readonly subjects: readonly string[];
  readonly retention: "limits" | "workqueue" | "interest";
  readonly storage: "file" | "memory";
  /** What gives way when the stream is full: the oldest messages, or the new one. */
  readonly discard: "old" | "new";
  /** 0 keeps messages for ever. */
  readonly maxAgeMs: number;
  readonly maxBytes: number;
  readonly maxMessageBytes: number;
  /** A message id that comes again inside this time is a duplicate. */
  readonly duplicateWindowMs: number;
  readonly replicas: number;
  /** All-or-nothing batches, on servers that can. */
  readonly atomic: boolean;
}

const DAY_MS = 86_400_000;
const MIB = 1024 * 1024;

const COMMON = {
  retention: "limits",
  storage: "file",
  discard: "old",
  duplicateWindowMs: 5 * 60_000,
  maxMessageBytes: 256 * 1024,
  atomic: true,
} as const;

/** `storageBytes`: what the server may use on disk; the streams take at most 80 % of it together. */
export function fleetStreams(o: { storageBytes?: number; replicas?: number } = {}): StreamSpec[] {
  const { storageBytes = Number.POSITIVE_INFINITY, replicas = 1 } = o;
  const share = (wanted: number, part: number) => Math.floor(Math.min(wanted, storageBytes * part));
  return [
    {
      ...COMMON,
      name: STREAMS.events,
      subjects: [SUBJECTS.everyEvent],
      maxAgeMs: 7 * DAY_MS,
      maxBytes: share(4096 * MIB, 0.7),
      replicas,
    },
    {
      ...COMMON,
      name: STREAMS.alerts,
      subjects: [SUBJECTS.everyAlert],
      maxAgeMs: 30 * DAY_MS,
      maxBytes: share(256 * MIB, 0.1),
      replicas,
    },
  ];
}

const NANOS_PER_MS = 1_000_000;

/** The server's form. `atomic` says whether the server knows atomic batches; an older one would ignore the field silently. */
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
    duplicate_window: spec.duplicateWindowMs * NANOS_PER_MS,
    num_replicas: spec.replicas,
    allow_direct: true,
    ...(atomic && spec.atomic && { allow_atomic: true }),
  };
}
