/**
 * The queries that carry artifacts. Any instance may answer any of them: what an upload has so far is in the store and in the place of
 * the bytes, and in no process.
 */
import { type ArtifactQueryResults, partSize, partsOf } from "../../../shared/protocol/artifacts.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { QueryParams } from "../../../shared/protocol/queries.ts";
import { noArtifact } from "../../../shared/records/artifacts/artifacts.ts";
import type { TenantCaller } from "../../../shared/records/audit/tenant-audit.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ArtifactHolding } from "../../../shared/service-host/artifacts.ts";
import type { ReaderContext } from "../context.ts";
import { createSoundness } from "./soundness.ts";
import { createVerification } from "./verification.ts";

export type ArtifactQueries = {
  readonly [Op in keyof ArtifactQueryResults]: (
    tenant: string,
    params: QueryParams<Op>,
    caller: string,
  ) => Promise<ArtifactQueryResults[Op]>;
};

const part_bytes = LIMITS.artifact_part_bytes;

export function createArtifactQueries(
  context: ReaderContext,
  repository: CheckpointRepository,
): ArtifactQueries {
  const records = repository.artifacts;
  const soundness = createSoundness(context.clock);
  const verification = createVerification(context, repository, soundness);
  const store = (): ArtifactHolding => context.artifacts ?? unavailable();

  async function storePart(by: TenantCaller, { upload_id, part, bytes }: QueryParams<"artifact_part">) {
    const artifacts = store();
    const { size, isStored } = await records.upload(by, upload_id);
    const content = Buffer.from(bytes, "base64");
    const expected = partSize(size, part);
    if (part >= partsOf(size)) throw invalid("part", `less than ${partsOf(size)}`, part);
    if (content.length !== expected) throw invalid("bytes", `Base64 of ${expected} bytes`, content.length);
    if (isStored) return { upload_id, part };
    artifacts.requireRoom();
    await artifacts.bytes.put({ tenant: by.tenant, upload: upload_id }, part, content);
    return { upload_id, part };
  }

  async function readPart(
    tenant: string,
    { sha256, part }: QueryParams<"artifact_read">,
  ): Promise<ArtifactQueryResults["artifact_read"]> {
    const artifacts = store();
    const record = await records.record(tenant, sha256);
    if (record === null) throw noArtifact(sha256);
    const { size, upload } = record;
    if (part >= partsOf(size)) throw invalid("part", `less than ${partsOf(size)}`, part);
    const content = await artifacts.bytes.get({ tenant, upload }, part);
    if (content?.length === partSize(size, part)) {
      return { sha256, part, bytes: Buffer.from(content).toString("base64") };
    }
    // It may have been removed or repaired in between.
    const now = await records.record(tenant, sha256);
    if (now === null) throw noArtifact(sha256);
    if (now.upload !== upload) return readPart(tenant, { sha256, part });
    soundness.forget(tenant, upload);
    throw new FleetError("CORRUPT", "a part of the artifact is lost or damaged", {
      details: { sha256, part },
    });
  }

  return {
    artifact_begin: async (tenant, { upload_id: upload, sha256, size }, caller) => {
      const artifacts = store();
      artifacts.requireRoom();
      const record = await records.record(tenant, sha256);
      const isDamaged =
        record?.size === size && !(await soundness.now(artifacts.bytes, { tenant, sha256, record }));
      const wanted = { upload, sha256, size, replaces: isDamaged ? record.upload : null };
      const stored = await records.begin({ tenant, caller }, wanted, artifacts);
      return { sha256, stored, part_bytes };
    },
    artifact_part: (tenant, query, caller) => storePart({ tenant, caller }, query),
    artifact_commit: async (tenant, { upload_id, sha256 }, caller) => ({
      sha256,
      state: await verification.verify(store(), { tenant, caller }, { upload: upload_id, sha256 }),
    }),
    artifact: async (tenant, { sha256 }) => ({
      artifact: await records.find(tenant, sha256, store()),
      part_bytes,
    }),
    artifact_read: readPart,
    artifacts: (tenant, query) => records.list(tenant, query, store()),
  };
}

function unavailable(): never {
  throw new FleetError(
    "UNAVAILABLE",
    "the fleet stores no artifacts; set FLEET_ARTIFACTS to a folder, or to nats",
  );
}
