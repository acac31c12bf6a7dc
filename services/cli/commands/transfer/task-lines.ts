// The lines of one task, read over the bus. The audit trail leads: it names every version that was ever written, versions never change, and
// entries only grow. So the lines up to the last entry of the first page hold the task at that moment, however much it is written meanwhile.

import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { ListedEsignature } from "../../../../shared/protocol/esign.ts";
import type { ExportLine, ExportLineOf } from "../../../../shared/protocol/export-lines.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { AuditRecord } from "../../../../shared/protocol/queries.ts";
import type { RemovedCheckpoint } from "../../../../shared/protocol/retention.ts";
import type { PlacedEnvelope } from "../../../../shared/protocol/signing-keys.ts";
import type { CallOptions } from "../../../../shared/sdk/request/request.ts";
import type { Checkpoint, FleetClient, KnownKeys } from "../../../../shared/sdk/sdk.ts";
import { NewestRecords } from "../../../../shared/transfer/record-verifier.ts";
import { missionMoment, recordLines } from "./mission-lines.ts";

/** Versions that are read at once, each of which may have 1 MB. */
const READS = 8;
/** The answers of readers of an older version, after which a page stays without signatures. */
const READERS_MAX = 8;

/**
 * All lines but the last, which has the digest of those that were written. Throws NOT_FOUND, CORRUPT for a damaged head, or `importUnfinished`
 * for a task of which a part is imported: an export of it would pass for the whole.
 */
export async function* taskLines(
  client: FleetClient,
  taskId: string,
  { keys, ...call }: CallOptions & { readonly keys: KnownKeys },
): AsyncGenerator<ExportLine> {
  const paged = { ...call, limit: LIMITS.audit_limit_max, signatures: true };
  const pageFrom = (fromSeq: number) => signedPage(() => client.getAudit(taskId, { ...paged, fromSeq }));
  const first = await pageFrom(1);
  // A mission that begins after this head is not of the state that the file holds.
  const mission = await missionMoment(client, taskId, call);
  const { task } = mission ?? first;
  if (task.origin?.complete === false) throw importUnfinished(taskId);
  // An older fleet answers no signatures, and does not know the query for keys.
  const isRequired = first.signatures !== undefined && (await keys.areRequired());
  yield { kind: "task", task, ...(isRequired && { signatures_required: true }) };
  const begun = new Set<string>();
  const newest = new NewestRecords();
  const signatures = new SignatureMembers(keys);
  const esignatures = new EsignatureMembers(client, taskId, call);
  for (let page = first; ; ) {
    if (isRequired && hasUnread(page)) throw readerTooOld(taskId);
    await signatures.add(page.signatures ?? []);
    const entries = page.entries.filter(({ seq }) => seq <= task.audit_seq);
    for (let at = 0; at < entries.length; at += READS) {
      const some = entries.slice(at, at + READS);
      const versions = await Promise.all(some.map((record) => versionLine(client, record, call)));
      for (const [i, { seq, entry }] of some.entries()) {
        const members = signatures.of(seq);
        const isUnread = members.signature === undefined && hasUnread({ ...page, entries: [some[i]!] });
        const facts = JSON.parse(entry) as Record<string, unknown>;
        const ofPerson = facts.op === "signature_add" ? await esignatures.of(seq) : {};
        yield {
          ...{ kind: "audit", seq, entry, ...members, ...ofPerson },
          ...(isUnread && { signature_unread: true }),
        };
        const version = versions[i];
        if (version != null) yield version;
        newest.add(facts);
        const { op, handoff_id } = facts;
        if (op === "handoff") begun.add(String(handoff_id));
      }
    }
    const last = page.entries.at(-1)?.seq ?? task.audit_seq;
    if (last >= task.audit_seq) break;
    page = await pageFrom(last + 1);
  }
  yield* recordLines(newest.hashes, mission);
  yield* handoffLines(client, taskId, begun, call);
}

type SignedPage = Pick<Awaited<ReturnType<FleetClient["getAudit"]>>, "entries" | "signatures">;

/** Whether a reader of an older version has answered entries that are signed. */
const hasUnread = ({ entries, signatures }: SignedPage): boolean =>
  signatures === undefined && entries.some(({ entry }) => entry.includes('"signed_by":"'));

/** Several readers answer in turn, and older ones among them answer no signatures. */
async function signedPage<T extends SignedPage>(read: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    const page = await read();
    if (attempt >= READERS_MAX || !hasUnread(page)) return page;
  }
}

const readerTooOld = (taskId: string): FleetError =>
  new FleetError(
    "UNAVAILABLE",
    "readers of an older version answer no signatures; repeat after their upgrade",
    {
      details: { task_id: taskId },
    },
  );

/** The members of audit lines that hold signatures, and each key with its first one. */
class SignatureMembers {
  readonly #keys: KnownKeys;
  readonly #written = new Set<string>();
  readonly #bySeq = new Map<number, Pick<ExportLineOf<"audit">, "signature" | "signing_key">>();

  constructor(keys: KnownKeys) {
    this.#keys = keys;
  }

  async add(signatures: readonly PlacedEnvelope[]): Promise<void> {
    for (const { seq, envelope } of signatures) {
      // The one after the end of a page is also the first one of the next page.
      if (envelope === null || this.#bySeq.has(seq)) continue;
      const id = envelope.signatures[0]?.keyid ?? "";
      const key = this.#written.has(id) ? null : await this.#keys.find(id);
      if (key !== null) this.#written.add(id);
      this.#bySeq.set(seq, { signature: envelope, ...(key !== null && { signing_key: key }) });
    }
  }

  of(seq: number): Pick<ExportLineOf<"audit">, "signature" | "signing_key"> {
    const members = this.#bySeq.get(seq) ?? {};
    this.#bySeq.delete(seq);
    return members;
  }
}

/** The electronic signatures of the task, read with the first entry that records one. */
class EsignatureMembers {
  readonly #read: () => Promise<readonly ListedEsignature[]>;
  #all: readonly ListedEsignature[] = [];

  constructor(client: FleetClient, taskId: string, call: CallOptions) {
    this.#read = () => client.admin.esign.list(taskId, call);
  }

  async of(seq: number): Promise<Pick<ExportLineOf<"audit">, "esignature" | "passkey_acts">> {
    const found = () => this.#all.find((one) => one.audit_seq === seq);
    if (found() === undefined) this.#all = await this.#read();
    const { signed = null, passkey_acts } = found() ?? {};
    if (signed === null) return {};
    return { esignature: signed, ...(passkey_acts !== undefined && { passkey_acts }) };
  }
}

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
