// anchors.jsonl: the anchors of the tenant's audit log, each with the proof that the log of the bundle begins with its checkpoint.

import type { AuditAnchor } from "../../../../../shared/protocol/audit-anchors.ts";
import { FleetError } from "../../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../../../shared/sdk/sdk.ts";
import type { ArchiveWriter } from "../../../../../shared/transfer/bundle/archive-writer.ts";
import { jsonLine } from "../../../../../shared/transfer/bundle/bundle-files.ts";
import type { Session } from "../../../runtime/session.ts";
import type { BundledLog } from "./bundle-proofs.ts";

/** Hourly time-stamps of six weeks. Older ones are in `fleet audit anchors`. */
const MOST = 1_000;
/** Proofs that are read at once. */
const PROOF_READS = 16;

/** The newest anchors, read before the log: a longer one than the log is then the trace of a log that was cut off. */
export interface RecordedAnchors {
  readonly anchors: readonly AuditAnchor[];
  /** Anchors of checkpoints with fewer entries were left out, or their records are damaged. null: none were. */
  readonly omittedBefore: number | null;
}

export async function recordedAnchors(
  { deadline }: Session,
  { admin }: FleetClient,
): Promise<RecordedAnchors> {
  const anchors: AuditAnchor[] = [];
  for (let beforeSize = Number.MAX_SAFE_INTEGER; ; ) {
    try {
      const page = await admin.auditAnchors({ ...deadline, beforeSize, limit: LIMITS.anchors_limit_max });
      anchors.push(...page.anchors);
      const last = page.anchors.at(-1);
      if (!page.more || last === undefined) return { anchors, omittedBefore: null };
      beforeSize = last.size;
    } catch (error) {
      if (!(error instanceof FleetError && error.code === "CORRUPT")) throw error;
      return { anchors, omittedBefore: beforeSize };
    }
    if (anchors.length >= MOST) return { anchors, omittedBefore: beforeSize };
  }
}

interface AnchorFile extends RecordedAnchors {
  readonly writer: ArchiveWriter;
  /** null: it is not signed. */
  readonly log: BundledLog | null;
}

/** Writes no file if there is nothing to state. Returns the number of anchors. */
export async function writeAnchorFile(
  session: Session,
  client: FleetClient,
  { writer, log, anchors, omittedBefore }: AnchorFile,
): Promise<number> {
  if (anchors.length === 0 && omittedBefore === null) return 0;
  writer.begin("anchors.jsonl");
  for (let from = 0; from < anchors.length; from += PROOF_READS) {
    const some = anchors.slice(from, from + PROOF_READS);
    const proofs = await Promise.all(some.map(({ size }) => proofOf(session, client, { size, log })));
    for (const [i, anchor] of some.entries()) {
      const { target, size, at, checkpoint, token, object, retained_until } = anchor;
      const of = { target, size, at, checkpoint, token, object, retained_until };
      await writer.append(jsonLine({ ...of, consistency: proofs[i] ?? null }));
    }
  }
  if (omittedBefore !== null) await writer.append(jsonLine({ omitted_before: omittedBefore }));
  await writer.end();
  return anchors.length;
}

/** null: the log of the bundle is shorter, or has no signed checkpoint. The verifiers report that. */
async function proofOf(
  { deadline }: Session,
  { admin }: FleetClient,
  { size, log }: { readonly size: number; readonly log: BundledLog | null },
): Promise<readonly string[] | null> {
  if (log === null || size > log.size) return null;
  const { consistency } = await admin.auditLog({ ...deadline, sinceSize: size, size: log.size });
  return consistency ?? null;
}
