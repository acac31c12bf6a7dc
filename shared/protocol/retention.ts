/**
 * Retention policies: how long a finalized checkpoint is kept (NFR-013). A policy is a name of the table
 * below, or an ISO 8601 duration in whole days, weeks, months or years (`P30D`, `P6Y`).
 */
import { z } from "zod";

/** Days; null: forever. `regulated` covers the six years of HIPAA with a margin. */
export const RETENTION_POLICIES = { short: 7, standard: 90, regulated: 2_557, permanent: null } as const;

export const DEFAULT_RETENTION = "standard";

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
 * The days to keep, or null for forever. Months and years are rounded up, because early deletion cannot be
 * undone. An earlier version also stored durations that the schema refuses now.
 */
export function retentionDays(policy: string): number | null {
  if (isNamed(policy)) return RETENTION_POLICIES[policy];
  const match = /^P(\d{1,5})([DWMY])$/.exec(policy);
  if (!match) throw new RangeError("not a retention policy");
  return Number(match[1]) * DAYS_PER_UNIT[match[2] as keyof typeof DAYS_PER_UNIT];
}

const RETENTION = new RegExp(RETENTION_PATTERN);

export const retentionSchema = z
  .string()
  .refine(
    (policy) => RETENTION.test(policy),
    "short, standard, regulated, permanent, or a duration such as P30D or P6Y, from P1D to P100Y",
  );
