/**
 * Checkpoints of an older schema version are migrated step by step when they are read. The stored bytes stay
 * as they were hashed. A newer major version is refused, because a guess could lose its meaning.
 */
import { type Checkpoint, SCHEMA_MAJOR } from "./checkpoint.ts";
import { FleetError } from "./errors.ts";

type Step = (checkpoint: Checkpoint) => Checkpoint;

/** The step from each version to the next. There is one version so far. */
const STEPS: Readonly<Record<string, Step>> = {};

/** Refuses a schema version whose major number is newer than this program knows. */
export function requireSupported(version: string): void {
  if (Number.parseInt(version, 10) > SCHEMA_MAJOR) {
    throw new FleetError(
      "UNSUPPORTED_VERSION",
      "the checkpoint's schema version is newer than this program",
      {
        fields: [{ path: "schema_version", expected: `at most ${SCHEMA_MAJOR}.x`, got: version }],
      },
    );
  }
}

export function migrate(checkpoint: Checkpoint): Checkpoint {
  requireSupported(checkpoint.schema_version);
  let current = checkpoint;
  for (let step = STEPS[current.schema_version]; step; step = STEPS[current.schema_version])
    current = step(current);
  return current;
}
