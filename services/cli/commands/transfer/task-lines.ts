// The lines of one task, read over the bus. The audit trail leads: it names every version that was ever written, versions never change, and
// entries only grow. So the lines up to the last entry of the first page hold the task at that moment, however much it is written meanwhile.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { ExportLine, ExportLineOf } from "../../../../shared/protocol/export-lines.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { AuditRecord } from "../../../../shared/protocol/queries.ts";
import type { RemovedCheckpoint } from "../../../../shared/protocol/retention.ts";
import type { PlacedEnvelope, SigningKeyRecord } from "../../../../shared/protocol/signing-keys.ts";
import type { CallOptions } from "../../../../shared/sdk/request/request.ts";
import type { Checkpoint, FleetClient } from "../../../../shared/sdk/sdk.ts";
import { NewestRecords } from "../../../../shared/transfer/record-verifier.ts";
import { missionMoment, recordLines } from "./mission-lines.ts";

/** Versions that are read at once, each of which may have 1 MB. */
const READS = 8;

/**
 * All lines but the last, which has the digest of those that were written. Throws NOT_FOUND, CORRUPT for a damaged head, or `importUnfinished`
 * for a task of which a part is imported: an export of it would pass for the whole.
 */
export async function* taskLines(
  client: FleetClient,
  taskId: string,
  call: CallOptions,
): AsyncGenerator<ExportLine> {
  const paged = { ...call, limit: LIMITS.audit_limit_max, signatures: true };
  const keys = await client.admin.signingKeys(call);
  const first = await client.getAudit(taskId, paged);
  // A mission that begins after this head is not of the state that the file holds.
  const mission = await missionMoment(client, taskId, call);
  const { task } = mission ?? first;
  if (task.origin?.complete === false) throw importUnfinished(taskId);
  yield { kind: "task", task };
  const begun = new Set<string>();
  const newest = new NewestRecords();
  const signatures = new SignatureMembers(keys);
  for (let page = first; ; ) {
    signatures.add(page.signatures ?? []);
    const entries = page.entries.filter(({ seq }) => seq <= task.audit_seq);
    for (let at = 0; at < entries.length; at += READS) {
      const some = entries.slice(at, at + READS);
      const versions = await Promise.all(some.map((record) => versionLine(client, record, call)));
      for (const [i, { seq, entry }] of some.entries()) {
        yield { kind: "audit", seq, entry, ...signatures.of(seq) };
        const version = versions[i];
        if (version != null) yield version;
        const facts = JSON.parse(entry) as Record<string, unknown>;
        newest.add(facts);
        const { op, handoff_id } = facts;
        if (op === "handoff") begun.add(String(handoff_id));
      }
    }
    const last = page.entries.at(-1)?.seq ?? task.audit_seq;
    if (last >= task.audit_seq) break;
    page = await client.getAudit(taskId, { ...paged, fromSeq: last + 1 });
  }
  yield* recordLines(newest.hashes, mission);
  yield* handoffLines(client, taskId, begun, call);
}

/** The members of audit lines that hold signatures, and each key with its first one. */
class SignatureMembers {
  readonly #keys: Map<string, SigningKeyRecord>;
  readonly #bySeq = new Map<number, Envelope>();

  constructor(keys: readonly SigningKeyRecord[]) {
    this.#keys = new Map(keys.map((key) => [key.key_id, key]));
  }

  add(signatures: readonly PlacedEnvelope[]): void {
    for (const { seq, envelope } of signatures) if (envelope !== null) this.#bySeq.set(seq, envelope);
  }

  of(seq: number): Pick<ExportLineOf<"audit">, "signature" | "signing_key"> {
    const signature = this.#bySeq.get(seq);
    if (signature === undefined) return {};
    this.#bySeq.delete(seq);
    const id = signature.signatures[0]?.keyid ?? "";
    const key = this.#keys.get(id);
    this.#keys.delete(id);
    return { signature, ...(key !== undefined && { signing_key: key }) };
  }
}

type Envelope = NonNullable<PlacedEnvelope["envelope"]>;

const IMPORTING = "importing";

const importUnfinished = (taskId: string): FleetError =>
  new FleetError("CONFLICT", "its import has not ended: repeat `fleet import` with the same file", {
    details: { task_id: taskId, reason: IMPORTING },
  });

export const isImportUnfinished = ({ details }: FleetError): boolean => details.reason === IMPORTING;

/** The version that the entry made; null: it made none. */
async function versionLine(
  client: FleetClient,
  { entry }: AuditRecord,
  call: CallOptions,
): Promise<ExportLine | null> {
  const { checkpoint_id: id, version, new_hash: hash } = JSON.parse(entry) as Record<string, unknown>;
  if (typeof id !== "string" || typeof version !== "number" || typeof hash !== "string") return null;
  const lost = (reason: string): ExportLineOf<"lost"> => ({
    kind: "lost",
    checkpoint_id: id,
    version,
    reason,
  });
  try {
    const checkpoint = await client.getCheckpoint(id, { ...call, version, asStored: true });
    if (checkpoint === null) return lost("the fleet does not have it");
    return { kind: "checkpoint", hash, checkpoint: withoutHash(checkpoint) };
  } catch (error) {
    if (!(error instanceof FleetError) || (error.code !== "CORRUPT" && error.code !== "NOT_FOUND"))
      throw error;
    const removed = error.details.removed as RemovedCheckpoint | undefined;
    const line = lost(String(error.details.reason ?? error.message));
    if (removed === undefined) return line;
    return { ...line, removed_entry: removed.audit_seq, fallback_id: removed.fallback_id ?? null };
  }
}

function withoutHash(checkpoint: Checkpoint): Record<string, unknown> {
  const { hash: _hash, signature: _signature, ...compliance } = checkpoint.compliance;
  return { ...checkpoint, compliance };
}

async function* handoffLines(
  client: FleetClient,
  taskId: string,
  begun: ReadonlySet<string>,
  call: CallOptions,
): AsyncGenerator<ExportLine> {
  if (begun.size === 0) return;
  for (let cursor: string | undefined; ; ) {
    const page = await client.handoffs({ ...call, taskId, cursor, limit: LIMITS.handoffs_limit_max });
    // One that began later is not of the state that the file holds.
    for (const handoff of page.handoffs) {
      if (begun.has(handoff.handoff_id)) yield { kind: "handoff", handoff };
    }
    cursor = page.cursor;
    if (cursor === undefined) return;
  }
}
