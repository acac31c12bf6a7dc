/**
 * Artifacts: files that are too large for a checkpoint. A checkpoint references them by their hash; their bytes
 * travel in parts over the bus and are stored once per tenant (claim check).
 */
import { z } from "zod";
import { checkpointIdSchema, digestSchema } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { pageLimit } from "./page-limit.ts";

const MEDIA_TYPE = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$/;
/** Control characters and the separators of folders. */
const UNSAFE = "\\u0000-\\u001f\\u007f-\\u009f/\\\\";
const NAME = new RegExp(`^[^${UNSAFE}]*[^${UNSAFE}.][^${UNSAFE}]*$`);

export const artifactSizeSchema = z
  .int()
  .min(0)
  .max(LIMITS.artifact_bytes_max, `a size of at most ${LIMITS.artifact_bytes_max} bytes`);

/** The reference in a checkpoint. The members stand in the order of their names, as in its canonical bytes. */
export const artifactReferenceSchema = z.looseObject({
  media_type: z
    .string()
    .regex(MEDIA_TYPE, "a media type in lower case without parameters, such as text/plain")
    .default("application/octet-stream"),
  /** The name of a file, for readers. No path. */
  name: z
    .string()
    .max(LIMITS.artifact_name_chars_max)
    .regex(NAME, "the name of a file: no / and \\, no control characters, not only dots"),
  sha256: digestSchema,
  /** In bytes. */
  size: artifactSizeSchema,
});
export type ArtifactReference = z.output<typeof artifactReferenceSchema>;

export const partSchema = z
  .int()
  .min(0)
  .max(Math.ceil(LIMITS.artifact_bytes_max / LIMITS.artifact_part_bytes));

/** Base64 of at most one part. */
export const partBytesSchema = z
  .string()
  .max(4 * Math.ceil(LIMITS.artifact_part_bytes / 3))
  .regex(/^[A-Za-z0-9+/]*={0,2}$/, "Base64");

/** Begins an upload. May be repeated with the same values. */
const beginQuerySchema = z.looseObject({
  upload_id: checkpointIdSchema,
  sha256: digestSchema,
  size: artifactSizeSchema,
});

/** Stores one part: `part_bytes` bytes from offset `part` × `part_bytes`, or the rest. May be repeated. */
const partQuerySchema = z.looseObject({
  upload_id: checkpointIdSchema,
  part: partSchema,
  bytes: partBytesSchema,
});

/** Verifies the hash of all parts and stores the artifact. Repeated until the answer is `stored`. */
const commitQuerySchema = z.looseObject({ upload_id: checkpointIdSchema, sha256: digestSchema });

const artifactQuerySchema = z.looseObject({ sha256: digestSchema });

const readQuerySchema = z.looseObject({ sha256: digestSchema, part: partSchema });

/** Ordered by hash. */
const artifactsQuerySchema = z.looseObject({
  limit: pageLimit(LIMITS.artifacts_limit_max, LIMITS.artifacts_limit_default),
  cursor: z.string().max(1_024).optional(),
});

export const ARTIFACT_QUERY_SCHEMAS = {
  artifact_begin: beginQuerySchema,
  artifact_part: partQuerySchema,
  artifact_commit: commitQuerySchema,
  artifact: artifactQuerySchema,
  artifact_read: readQuerySchema,
  artifacts: artifactsQuerySchema,
} as const;

/** A stored artifact. */
const artifactSchema = z.looseObject({
  sha256: z.string(),
  size: z.int(),
  stored_at: z.string(),
  /** The agent or person that uploaded the bytes first. */
  stored_by: z.string(),
  /** Until when it stays even without a reference: every upload of the same bytes and every lost reference extends it. */
  kept_until: z.string(),
  /** Checkpoints that reference it: at most ten of them. */
  references: z.array(z.looseObject({ task_id: z.string(), checkpoint_id: z.string() })),
});
export type Artifact = z.infer<typeof artifactSchema>;

const artifactPageSchema = z.looseObject({
  artifacts: z.array(artifactSchema),
  /** The bytes of all artifacts and open uploads of the tenant, and their limit. */
  total_bytes: z.int(),
  total_bytes_max: z.int(),
  /** Absent on the last page. */
  cursor: z.string().exactOptional(),
});
export type ArtifactPage = z.infer<typeof artifactPageSchema>;

const begunSchema = z.looseObject({
  sha256: z.string(),
  /** The tenant has the bytes: nothing is to be uploaded. */
  stored: z.boolean(),
  part_bytes: z.int(),
});
const commitStateSchema = z.looseObject({ sha256: z.string(), state: z.enum(["verifying", "stored"]) });
const readPartSchema = z.looseObject({ sha256: z.string(), part: z.int(), bytes: z.string() });

export const ARTIFACT_RESULT_SCHEMAS = {
  artifact_begin: begunSchema,
  artifact_part: z.looseObject({ upload_id: z.string(), part: z.int() }),
  artifact_commit: commitStateSchema,
  artifact: z.looseObject({ artifact: artifactSchema, part_bytes: z.int() }),
  artifact_read: readPartSchema,
  artifacts: artifactPageSchema,
} as const;

export type ArtifactQueryResults = {
  readonly [Op in keyof typeof ARTIFACT_RESULT_SCHEMAS]: z.infer<(typeof ARTIFACT_RESULT_SCHEMAS)[Op]>;
};

/** The number of parts of an artifact of `size` bytes. */
export function partsOf(size: number): number {
  return Math.ceil(size / LIMITS.artifact_part_bytes);
}

/** The size of a part in bytes. */
export function partSize(size: number, part: number): number {
  return Math.max(0, Math.min(LIMITS.artifact_part_bytes, size - part * LIMITS.artifact_part_bytes));
}
