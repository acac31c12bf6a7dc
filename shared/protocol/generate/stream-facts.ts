/** The streams of the fleet with their subjects and settings, for the description of the bus. */
import { LIMITS } from "../limits.ts";
import { STREAMS, SUBJECTS } from "../subjects.ts";

const DAY_MS = 86_400_000;
const MIB = 1_048_576;

const COMMON = {
  retention: "limits",
  storage: "file",
  discard: "old",
  max_message_bytes: 256 * 1024,
  duplicate_window_ms: 300_000,
  allow_atomic: true,
};

const KEPT = {
  max_age_ms: 0,
  storage: "file",
  discard: "new",
  duplicate_window_ms: 300_000,
  allow_atomic: false,
};

/**
 * The streams with their maximum sizes. The protocol may not import the bus, so a test compares this table
 * with the bus.
 */
export const STREAM_FACTS = {
  [STREAMS.events]: {
    subjects: [SUBJECTS.everyEvent],
    max_age_ms: 7 * DAY_MS,
    max_bytes: 4_096 * MIB,
    ...COMMON,
  },
  [STREAMS.alerts]: {
    subjects: [SUBJECTS.everyAlert],
    max_age_ms: LIMITS.alerts_kept_ms,
    max_bytes: 256 * MIB,
    ...COMMON,
  },
  [STREAMS.queue]: {
    subjects: [SUBJECTS.everyQueue],
    subject_transform: SUBJECTS.queuedForm,
    max_bytes: 8_192 * MIB,
    retention: "workqueue",
    max_message_bytes: LIMITS.payload_bytes_max - LIMITS.queue_headers_bytes_max,
    ...KEPT,
  },
  [STREAMS.dead]: {
    subjects: [SUBJECTS.everyDead],
    max_bytes: 1_024 * MIB,
    retention: "limits",
    max_message_bytes: LIMITS.payload_bytes_max,
    ...KEPT,
  },
  [STREAMS.offers]: {
    subjects: [SUBJECTS.everyOffer],
    ...KEPT,
    max_age_ms: DAY_MS,
    max_bytes: 256 * MIB,
    retention: "workqueue",
    max_message_bytes: 256 * 1024,
    max_messages_per_subject: 1,
    allow_atomic: true,
  },
  [STREAMS.exits]: {
    subjects: [SUBJECTS.everyExit],
    ...COMMON,
    max_age_ms: 7 * DAY_MS,
    max_bytes: 64 * MIB,
    allow_atomic: false,
  },
} as const;
