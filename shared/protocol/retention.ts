/**
 * Retention policies: how long a finalized checkpoint is kept (NFR-013). A policy is a name of the table
 * below, or an ISO 8601 duration in whole days, weeks, months or years (`P30D`, `P6Y`).
 */
import { z } from "zod";

/** Days; null: forever. `regulated` covers the six years of HIPAA with a margin. */
export const RETENTION_POLICIES = { short: 7, standard: 90, regulated: 2_557, permanent: null } as const;

export const DEFAULT_RETENTION = "standard";

const DURATION = /^P(\d{1,5})([DWMY])$/;
/** A regular expression for names and durations, for JSON Schema. */
export const RETENTION_PATTERN = `^(${Object.keys(RETENTION_POLICIES).join("|")}|P\\d{1,5}[DWMY])$`;
const DAYS_PER_UNIT = { D: 1, W: 7, M: 31, Y: 366 } as const;

function isNamed(policy: string): policy is keyof typeof RETENTION_POLICIES {
  return Object.hasOwn(RETENTION_POLICIES, policy);
}

/**
 * The days to keep, or null for forever. Months and years are rounded up, because early deletion cannot be
 * undone.
 */
export function retentionDays(policy: string): number | null {
  if (isNamed(policy)) return RETENTION_POLICIES[policy];
  const match = DURATION.exec(policy);
  if (!match) throw new RangeError("not a retention policy");
  return Number(match[1]) * DAYS_PER_UNIT[match[2] as keyof typeof DAYS_PER_UNIT];
}

const DAYS_MAX = 100 * 366;

export const retentionSchema = z
  .string()
  .refine(
    (policy) => isNamed(policy) || (DURATION.test(policy) && (retentionDays(policy) ?? 0) <= DAYS_MAX),
    "short, standard, regulated, permanent, or a duration such as P30D or P6Y, at most P100Y",
  );
