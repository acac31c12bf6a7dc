/**
 * The verification of an upload: the hash of all its parts. It reads one part at a time and may take seconds, so it runs beside the
 * requests, which ask again until it has ended. If the process dies, the next request begins it again, in any instance.
 */
import { createHash } from "node:crypto";
import { partSize, partsOf } from "../../../shared/protocol/artifacts.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import type { TenantCaller } from "../../../shared/records/audit/tenant-audit.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ArtifactHolding } from "../../../shared/service-host/artifacts.ts";
import type { ReaderContext } from "../context.ts";

/** How long a request waits for the end. */
const WAIT_MS = 500;

export type CommitState = "verifying" | "stored";

interface Claim {
  readonly upload: string;
  readonly sha256: string;
}

export function createVerification(
  { clock, log }: Pick<ReaderContext, "clock" | "log">,
  { artifacts: records }: CheckpointRepository,
) {
  const running = new Map<string, Promise<CommitState>>();

  async function run(
    artifacts: ArtifactHolding,
    by: TenantCaller,
    { upload, sha256 }: Claim,
  ): Promise<CommitState> {
    // A repeated request after the answer was lost finds the artifact.
    if ((await records.record(by.tenant, sha256)) !== null) {
      await discard(artifacts, by, upload);
      return "stored";
    }
    const found = await records.upload(by, upload);
    if (found.sha256 !== sha256) throw invalid("sha256", `${found.sha256}, as at the beginning`, sha256);
    const place = { tenant: by.tenant, upload };
    const hash = createHash("sha256");
    for (let part = 0; part < partsOf(found.size); part += 1) {
      const bytes = await artifacts.bytes.get(place, part);
      if (bytes?.length !== partSize(found.size, part)) {
        throw new FleetError("CONFLICT", "a part of the upload is missing", { details: { part } });
      }
      hash.update(bytes);
    }
    const actual = hash.digest("hex");
    if (actual !== sha256) {
      await discard(artifacts, by, upload);
      throw invalid("sha256", "the hash of the bytes", actual);
    }
    await artifacts.bytes.sync(place);
    if (!(await records.store(by, upload)))
      await artifacts.bytes.remove({ ...place, parts: partsOf(found.size) });
    log.info({ tenant: by.tenant, caller: by.caller, sha256, size: found.size }, "artifact stored");
    return "stored";
  }

  /** Ends an upload that is not needed. A crash in between leaves bytes that the sweep removes. */
  async function discard({ bytes }: ArtifactHolding, by: TenantCaller, upload: string): Promise<void> {
    const ended = await records.end(by, upload);
    if (ended !== null) await bytes.remove({ tenant: by.tenant, upload, parts: partsOf(ended.size) });
  }

  return {
    verify(artifacts: ArtifactHolding, by: TenantCaller, claim: Claim): Promise<CommitState> {
      const key = JSON.stringify([by.tenant, by.caller, claim.upload, claim.sha256]);
      let job = running.get(key);
      if (job === undefined) {
        job = run(artifacts, by, claim).finally(() => running.delete(key));
        // A request that no longer waits must not leave a rejection without a handler.
        job.catch(() => {});
        running.set(key, job);
      }
      const waiting = new AbortController();
      const late = clock.sleep(WAIT_MS, waiting.signal).then((): CommitState => "verifying");
      return Promise.race([job, late]).finally(() => waiting.abort());
    },
  };
}
