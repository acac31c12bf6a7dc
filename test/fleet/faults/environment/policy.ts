/** The fleet's policy under faults: every deadline and timeout is a few seconds. */
import { writeFileSync } from "node:fs";
import { DEFAULT_POLICY } from "../../../../shared/protocol/policy.ts";
import { LAUNCHED, WORKER } from "../workers/task-kinds.ts";

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
    // Small, so that every task has removals. They begin where retention is on.
    retention: { keep: 2, max: 6, completed_days: 1, days: 7 },
  },
  tenants: {
    // Many offers, because a worker may accept only after several of them were killed.
    default: {
      agent_types: {
        [WORKER]: { offer: { deadline_ms: 2_000, max_attempts: 60 } },
        // The runner starts a process for each task.
        [LAUNCHED]: { offer: { deadline_ms: 5_000, max_attempts: 60 }, first_checkpoint_ms: 10_000 },
      },
    },
  },
} as const;

/**
 * The silence after which an agent counts as failed. A frozen server of a cluster makes its clients silent for some seconds until they find
 * another one, which the default must allow.
 */
export const silenceOf = ({ busServers }: { readonly busServers: number }): number =>
  busServers === 1 ? POLICY.defaults.recovery.silence_ms : DEFAULT_POLICY.recovery.silence_ms;

export function writePolicy(path: string, silenceMs: number): string {
  const { defaults } = POLICY;
  const recovery = { ...defaults.recovery, silence_ms: silenceMs };
  writeFileSync(path, JSON.stringify({ ...POLICY, defaults: { ...defaults, recovery } }));
  return path;
}
