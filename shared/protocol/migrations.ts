/**
 * Checkpoints of an older schema version are migrated step by step when they are read, and when an older agent
 * writes them. The stored bytes stay as they were hashed. A newer major version is refused, because a guess
 * could lose its meaning.
 */
import { type Checkpoint, type CheckpointDraft, SCHEMA_MAJOR } from "./checkpoint.ts";
import { FleetError } from "./errors.ts";

type Versioned = Pick<Checkpoint | CheckpointDraft, "schema_version" | "metrics">;
type Step = (checkpoint: Versioned) => Partial<Versioned>;

/** The step from each version to the next: the changed sections. */
const STEPS: Readonly<Record<string, Step>> = { "1.0": from1dot0 };

/**
 * Until version 1.0, the tokens of the iteration stood in for the tokens in the context of an agent that
 * reported a limit without `context_tokens`.
 */
function from1dot0({ metrics }: Versioned): Partial<Versioned> {
  const { context_limit, context_tokens = metrics.tokens_consumed } = metrics;
  const isMeant = context_limit !== undefined && metrics.context_utilization === undefined;
  return { schema_version: "1.1", ...(isMeant && { metrics: { ...metrics, context_tokens } }) };
}

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

/** The checkpoint in the current version of the schema. */
export function migrate<C extends Versioned>(checkpoint: C): C {
  requireSupported(checkpoint.schema_version);
  let current = checkpoint;
  for (let step = STEPS[current.schema_version]; step; step = STEPS[current.schema_version])
    current = { ...current, ...step(current) };
  return current;
}
