/** The fleet's policy under faults: everything that can run out does so within seconds. */
import { writeFileSync } from "node:fs";
import { HIRED, WORKER } from "../workers/kinds.ts";

export const POLICY = {
  defaults: {
    offer: { deadline_ms: 2_000, max_attempts: 2 },
    first_checkpoint_ms: 2_500,
    recovery: {
      silence_ms: 4_000,
      attempts: 3,
      previous_attempts: 2,
      back_off_ms: 1_000,
      back_off_max_ms: 1_000,
      window_attempts: 10,
      window_ms: 600_000,
    },
  },
  tenants: {
    // However many of them are dead, sooner or later one is there to take an offer.
    default: {
      agent_types: {
        [WORKER]: { offer: { deadline_ms: 2_000, max_attempts: 60 } },
        // A process has to be started for each.
        [HIRED]: { offer: { deadline_ms: 5_000, max_attempts: 60 }, first_checkpoint_ms: 10_000 },
      },
    },
  },
} as const;

export function writePolicy(path: string): string {
  writeFileSync(path, JSON.stringify(POLICY));
  return path;
}
