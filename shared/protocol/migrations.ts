/**
 * Checkpoints written by an older schema version become current when they are read, step by step; what is stored stays as it
 * was hashed. A newer major version is refused, since guessing at it could lose what it means.
 */
import { type Checkpoint, SCHEMA_MAJOR } from "./checkpoint.ts";
import { FleetError } from "./errors.ts";

type Step = (checkpoint: Checkpoint) => Checkpoint;

/** From the key's version to the next; there is one version so far. */
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
