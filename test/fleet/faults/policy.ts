/** The fleet's policy under faults: everything that can run out does so within seconds. */
import { writeFileSync } from "node:fs";

export const POLICY = {
  defaults: { offer: { deadline_ms: 2_000, max_attempts: 2 }, first_checkpoint_ms: 2_500 },
} as const;

export function writePolicy(path: string): string {
  writeFileSync(path, JSON.stringify(POLICY));
  return path;
}
