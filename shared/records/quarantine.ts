/**
 * Quarantine: a checkpoint version that did not verify is marked, audited and announced, once, in one transaction. The mark keeps
 * it from being served even if its bytes should verify later; only a person lifts it.
 */
import type { CorruptCheckpoint } from "../protocol/queries.ts";
import type { Tx } from "../store/store.ts";
import { appendAudit } from "./audit.ts";
import { encode, encodeChecked } from "./codec.ts";
import { appendFeed } from "./feed.ts";
import { decodeHead } from "./head.ts";
import { tenantKeys } from "./keyspace.ts";
import { appendEvent } from "./outbox.ts";
import { eventOf } from "./transition.ts";

export interface Finding {
  readonly tenant: string;
  readonly task: string;
  readonly corrupt: CorruptCheckpoint & { readonly checkpoint_id: string };
  /** The service that found it. */
  readonly finder: string;
  readonly nowMs: number;
  readonly incarnation: number;
  readonly traceparent: string | undefined;
}

/** A row that cannot be decoded has no version; it is quarantined as version 0. */
const VERSION_UNKNOWN = 0;

/** Returns false when it was quarantined before. */
export async function quarantine(tx: Tx, finding: Finding): Promise<boolean> {
  const { tenant, task, corrupt } = finding;
  const keys = tenantKeys(tenant);
  const mark = keys.quarantine(task, corrupt.checkpoint_id, corrupt.version ?? VERSION_UNKNOWN);
  const [marked, headValue] = await tx.getMany([mark, keys.task(task)]);
  if (marked !== undefined || headValue === undefined) return false;
  const head = decodeHead(headValue);
  const at = new Date(finding.nowMs).toISOString();
  tx.set(mark, encode({ reason: corrupt.reason, at, by: finding.finder }));
  const chain = appendAudit(
    tx,
    keys,
    { tenant, task, head },
    {
      op: "quarantine",
      actor: { id: finding.finder, type: "service" },
      at,
      commandId: null,
      checkpointId: corrupt.checkpoint_id,
      version: corrupt.version,
      oldHash: null,
      newHash: null,
      stateFrom: head.state,
      stateTo: head.state,
      fence: head.fence,
      facts: { reason: corrupt.reason },
    },
  );
  tx.set(
    keys.task(task),
    encodeChecked({ ...head, audit_seq: chain.seq, audit_hash: chain.hash, updated_at: at }),
  );
  appendFeed(tx, finding.incarnation, {
    tenant,
    task,
    checkpoint: corrupt.checkpoint_id,
    version: corrupt.version,
  });
  const actor = { tenant, task, agent: finding.finder };
  appendEvent(
    tx,
    finding.incarnation,
    eventOf({ actor, traceparent: finding.traceparent }, chain.seq, at, {
      type: "CHECKPOINT_CORRUPTED",
      data: { checkpointId: corrupt.checkpoint_id, error: corrupt.reason },
    }),
  );
  return true;
}
