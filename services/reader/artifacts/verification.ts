/**
 * The verification of an upload: the hash of all its parts. It reads one part at a time and may take seconds, so it runs beside the
 * requests, which ask again until it has ended. If the process dies, the next request begins it again, in any instance.
 */
import { contentHash } from "../../../shared/artifacts/content-hash.ts";
import { partsOf } from "../../../shared/protocol/artifacts.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import type { TenantCaller } from "../../../shared/records/audit/tenant-audit.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ArtifactHolding } from "../../../shared/service-host/artifacts.ts";
import type { ReaderContext } from "../context.ts";
import type { Soundness } from "./soundness.ts";

/** How long a request waits for the end. */
const WAIT_MS = 500;

export type CommitState = "verifying" | "stored";

interface Claim {
  readonly upload: string;
  readonly sha256: string;
}

export function createVerification(
  { clock, log, metrics }: Pick<ReaderContext, "clock" | "log" | "metrics">,
  { artifacts: records }: CheckpointRepository,
  soundness: Soundness,
) {
  const running = new Map<string, Promise<CommitState>>();

  async function run(
    artifacts: ArtifactHolding,
    by: TenantCaller,
    { upload, sha256 }: Claim,
  ): Promise<CommitState> {
    const { tenant } = by;
    const known = await records.record(tenant, sha256);
    // A repeated request after the answer was lost finds its own upload as the artifact.
    if (
      known !== null &&
      (known.upload === upload || (await soundness.whole(artifacts.bytes, { tenant, sha256, record: known })))
    ) {
      await discard(artifacts, by, upload);
      return "stored";
    }
    const found = await records.upload(by, upload);
    if (found.sha256 !== sha256) throw invalid("sha256", `${found.sha256}, as at the beginning`, sha256);
    const place = { tenant, upload };
    const content = await contentHash(artifacts.bytes, { ...place, size: found.size });
    if ("part" in content) {
      throw new FleetError("CONFLICT", "a part of the upload is missing", {
        details: { part: content.part },
      });
    }
    if (content.sha256 !== sha256) {
      await discard(artifacts, by, upload);
      throw invalid("sha256", "the hash of the bytes", content.sha256);
    }
    await artifacts.bytes.sync(place);
    const { isKept, replaced } = await records.store(by, upload, known?.upload ?? null);
    if (!isKept) await artifacts.bytes.remove({ ...place, parts: partsOf(found.size) });
    if (replaced !== null) {
      await artifacts.bytes.remove({ tenant, upload: replaced.upload, parts: partsOf(replaced.size) });
      metrics.artifactsRepairedTotal.inc();
      log.warn({ tenant, caller: by.caller, sha256 }, "lost or damaged bytes of an artifact replaced");
    }
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
