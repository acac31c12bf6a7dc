/**
 * Retention policies: how long a checkpoint is kept at least (NFR-013). A policy is a name of the table
 * below, or an ISO 8601 duration in whole days, weeks, months or years (`P30D`, `P6Y`).
 */
import { z } from "zod";
import { LIMITS } from "./limits.ts";

/**
 * Days; null: forever. `working` promises no time: the settings of the fleet decide (`retention` of the
 * policy). `regulated` covers the six years of HIPAA with a margin.
 */
export const RETENTION_POLICIES = {
  working: 0,
  short: 7,
  standard: 90,
  regulated: 2_557,
  permanent: null,
} as const;

export const DEFAULT_RETENTION = "working";

const DAYS_PER_UNIT = { D: 1, W: 7, M: 31, Y: 366 } as const;
const DAYS_MAX = 100 * DAYS_PER_UNIT.Y;

/** A regular expression for the whole numbers from 1 to `max`: the numbers with fewer digits, then digit by digit. */
function upTo(max: number): string {
  const digits = [...String(max)].map(Number);
  const shorter = digits.length > 1 ? [`[1-9]\\d{0,${digits.length - 2}}`] : [];
  const smaller = digits.flatMap((digit, i) => {
    const low = i === 0 ? 1 : 0;
    if (digit <= low) return [];
    return [`${digits.slice(0, i).join("")}[${low}-${digit - 1}]\\d{${digits.length - i - 1}}`];
  });
  return [...shorter, ...smaller, String(max)].join("|");
}

const DURATIONS = Object.entries(DAYS_PER_UNIT).map(
  ([unit, days]) => `(?:${upTo(Math.floor(DAYS_MAX / days))})${unit}`,
);
/** A regular expression for names and durations, for JSON Schema. */
export const RETENTION_PATTERN = `^(?:${Object.keys(RETENTION_POLICIES).join("|")}|P(?:${DURATIONS.join("|")}))$`;

function isNamed(policy: string): policy is keyof typeof RETENTION_POLICIES {
  return Object.hasOwn(RETENTION_POLICIES, policy);
}

/**
 * The days that the policy promises, or null for forever. Months and years are rounded up, because early deletion cannot be
 * undone. An earlier version also stored durations that the schema refuses now.
 */
export function retentionDays(policy: string): number | null {
  if (isNamed(policy)) return RETENTION_POLICIES[policy];
  const match = /^P(\d{1,5})([DWMY])$/.exec(policy);
  if (!match) throw new RangeError("not a retention policy");
  return Number(match[1]) * DAYS_PER_UNIT[match[2] as keyof typeof DAYS_PER_UNIT];
}

/** The one that promises more time; the first of two that promise the same. */
export function longerRetention(a: string, b: string): string {
  return promisedDays(b) > promisedDays(a) ? b : a;
}

/** The days, with forever as infinity. */
export function promisedDays(policy: string): number {
  return retentionDays(policy) ?? Infinity;
}

const RETENTION = new RegExp(RETENTION_PATTERN);

export const retentionSchema = z
  .string()
  .refine(
    (policy) => RETENTION.test(policy),
    "working, short, standard, regulated, permanent, or a duration such as P30D or P6Y, from P1D to P100Y",
  );

/** Why a checkpoint was removed. `request`: an operator named it. `shredded`: two persons had its task shredded. */
export const REMOVAL_REASONS = ["age", "count", "completed", "request", "shredded"] as const;
export type RemovalReason = (typeof REMOVAL_REASONS)[number];

/**
 * Why a checkpoint stays. `held`: a hold is placed on its task. `promised`: its retention policy still
 * promises it. `floor`: the retention floor of its tenant, or of the time of its commit, still forbids it. `newest`: it is one of the newest of its task. `final`: its completed task ended with it.
 * `recovery`: a recovery of the task would continue from it. `handoff`: the open handoff starts from it.
 * `owned`: a living agent continues from it. `signed`: a person has signed a version of it. `young`: it is not old enough.
 * `corrupt`: an ancestor does not verify, so an operator must decide from where to continue.
 */
export const KEPT_REASONS = [
  "held",
  "promised",
  "floor",
  "newest",
  "final",
  "recovery",
  "handoff",
  "owned",
  "signed",
  "young",
  "corrupt",
] as const;
export type KeptReason = (typeof KEPT_REASONS)[number];

/** What is left of a removed checkpoint. Its audit entries stay too. */
export const removedSchema = z.looseObject({
  checkpoint_id: z.string(),
  task_id: z.string(),
  seq: z.int(),
  /** The last version and its hash. */
  version: z.int(),
  hash: z.string(),
  /** The checkpoint that is left to fall back to; null: none. Absent from older fleets. */
  fallback_id: z.string().nullable().exactOptional(),
  removed_at: z.string(),
  reason: z.enum(REMOVAL_REASONS),
  retention_policy: z.string(),
  /** The service or operator that removed it. */
  removed_by: z.string(),
  /** The entry in the audit trail of the task. */
  audit_seq: z.int(),
});
export type RemovedCheckpoint = z.infer<typeof removedSchema>;

/** The values of a prune. Absent: those of the settings. */
export const pruneFields = {
  older_than_days: z.int().min(1).max(LIMITS.retention_days_max).optional(),
  keep: z.int().min(1).max(LIMITS.retention_keep_max).optional(),
};
