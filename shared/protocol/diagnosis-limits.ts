/** The limits of `diagnose` and of `fleet doctor`, among those of `limits.ts`. */
export const DIAGNOSIS_LIMITS = {
  /** The time in which a service reads one part of its diagnosis, and in which all services answer. */
  diagnosis_part_ms: 2_500,
  diagnosis_ms: 4_000,
  /** The consumers that one diagnosis names. */
  diagnosis_consumers_max: 50,
  /** Messages that wait for one consumer from which `fleet doctor` warns. */
  consumer_backlog_warn: 1_000,
  /** The difference between two clocks from which `fleet doctor` warns, and from which it fails. */
  clock_skew_ms_warn: 1_000,
  clock_skew_ms_max: 30_000,
  /** The age of a signing key from which `fleet doctor` warns: a yearly rotation is late. */
  signing_key_age_ms_warn: 400 * 86_400_000,
} as const;
