// anchors.jsonl: the anchors of the tenant's audit log, each with the proof that the log of the bundle begins with its checkpoint.

import {
  ANCHOR_TARGETS,
  type AnchorTarget,
  type AuditAnchor,
} from "../../../../../shared/protocol/audit-anchors.ts";
import { FleetError } from "../../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../../../shared/sdk/sdk.ts";
import type { ArchiveWriter } from "../../../../../shared/transfer/bundle/archive-writer.ts";
import { jsonLine } from "../../../../../shared/transfer/bundle/bundle-files.ts";
import type { Session } from "../../../runtime/session.ts";
import type { BundledLog } from "./bundle-proofs.ts";

/** Of each target: hourly time-stamps of six weeks. `fleet audit anchors` lists older ones. */
const MOST = 1_000;
/** Proofs that are read at once. */
const PROOF_READS = 16;

/** The newest anchors, read before the log: a longer one than the log is then the trace of a log that was cut off. */
export interface RecordedAnchors {
  /** The newest first. */
  readonly anchors: readonly AuditAnchor[];
  /** For each target that has others: the size of the oldest one that was read. null: none was. */
  readonly cutAt: readonly (number | null)[];
}

export async function recordedAnchors(session: Session, client: FleetClient): Promise<RecordedAnchors> {
  const read = await Promise.all(ANCHOR_TARGETS.map((target) => anchorsOf(session, client, target)));
  const anchors = read.flatMap((one) => one.anchors).toSorted((one, other) => other.size - one.size);
  return { anchors, cutAt: read.flatMap((one) => (one.isCut ? [one.anchors.at(-1)?.size ?? null] : [])) };
}

interface TargetAnchors {
  readonly anchors: readonly AuditAnchor[];
  readonly isCut: boolean;
}

/** Up to a damaged record of an anchor, which is no reason to have no bundle. */
async function anchorsOf(
  { deadline }: Session,
  { admin }: FleetClient,
  target: AnchorTarget,
): Promise<TargetAnchors> {
  const anchors: AuditAnchor[] = [];
  let limit: number = LIMITS.anchors_limit_max;
  while (anchors.length < MOST) {
    const beforeSize = anchors.at(-1)?.size;
    try {
      const page = await admin.auditAnchors({
        ...deadline,
        target,
        beforeSize,
        limit: Math.min(limit, MOST - anchors.length),
      });
      anchors.push(...page.anchors);
      if (!page.more || page.anchors.length === 0) return { anchors, isCut: false };
    } catch (error) {
      if (!(error instanceof FleetError && error.code === "CORRUPT")) throw error;
      // Those before the damaged one follow one by one.
      if (limit === 1) break;
      limit = 1;
    }
  }
  return { anchors, isCut: true };
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
  { writer, log, anchors, cutAt }: AnchorFile,
): Promise<number> {
  if (anchors.length === 0 && cutAt.length === 0) return 0;
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
  if (cutAt.length > 0) {
    const omitted_before = Math.max(...cutAt.map((size) => size ?? (log?.size ?? 0) + 1));
    await writer.append(jsonLine({ omitted_before }));
  }
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
