/** Answers about the log of a tenant: its newest checkpoint, and proofs from its tiles. */
import { openCheckpoint } from "../../integrity/merkle/note.ts";
import { proveConsistency, proveInclusion } from "../../integrity/merkle/tree.ts";
import { ANCHOR_TARGETS, type AuditAnchor, type AuditAnchorPage } from "../../protocol/audit-anchors.ts";
import { type AuditLogState, type AuditProof, logOrigin } from "../../protocol/audit-log.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { Reader } from "../../store/store.ts";
import { decode } from "../kv/codec.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import { listSigningKeys } from "../signing/key-record.ts";
import { readAnchors } from "./anchor-records.ts";
import { readTenantDelay } from "./log-delay.ts";
import { fromTree, lastPlaced, readLog, readPlace, tilesOf } from "./log-records.ts";
import { readRestoreStatements } from "./restore-statements.ts";

/** About the time between two steps of the log. */
const RETRY_AFTER_MS = 2_000;
/** Statements of restores in one answer. */
const RESTORES_MAX = 10;

export class AuditLogs {
  readonly #transactions: Transactions;
  readonly #now: () => number;

  constructor(parts: { readonly transactions: Transactions; readonly now: () => number }) {
    this.#transactions = parts.transactions;
    this.#now = parts.now;
  }

  /** Throws CORRUPT for a damaged log. */
  state(tenant: string, query: QueryParams<"audit_log">): Promise<AuditLogState> {
    return this.#transactions.read("audit_log", (reader) => readState(reader, tenant, query, this.#now()));
  }

  /**
   * Throws NOT_FOUND for an entry that does not exist, UNAVAILABLE for one that is not in the log yet, CORRUPT for one that was damaged when the log
   * came to it.
   */
  prove(tenant: string, query: QueryParams<"audit_proof">): Promise<AuditProof> {
    const { task_id: task } = query;
    return this.#transactions.read("audit_proof", (reader) => prove(reader, { tenant, task }, query));
  }

  /** The same for the chain of the tenant. */
  proveAct(tenant: string, { seq }: QueryParams<"tenant_audit_proof">): Promise<AuditProof> {
    return this.#transactions.read("tenant_audit_proof", (reader) =>
      prove(reader, { tenant, task: null }, { seq }),
    );
  }

  /** Throws CORRUPT for a damaged record of an anchor. */
  anchors(tenant: string, query: QueryParams<"audit_anchors">): Promise<AuditAnchorPage> {
    return this.#transactions.read("audit_anchors", (reader) => listAnchors(reader, tenant, query));
  }
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64");

async function listAnchors(
  reader: Reader,
  tenant: string,
  { target: wanted, before_size: beforeSize, limit }: QueryParams<"audit_anchors">,
): Promise<AuditAnchorPage> {
  const targets = wanted === undefined ? ANCHOR_TARGETS : [wanted];
  const pages = await Promise.all(
    targets.map((target) => readAnchors(reader, { tenant, target }, { beforeSize, limit })),
  );
  const anchors = pages.flatMap(({ anchors }, i) =>
    anchors.map(
      ({
        size,
        at,
        checkpoint,
        token,
        verified = false,
        object = null,
        retained_until = null,
      }): AuditAnchor => ({
        ...{ target: targets[i]!, size, at, checkpoint },
        ...{ token: token === undefined ? null : base64(token), object, retained_until },
        verified: token === undefined ? null : verified,
      }),
    ),
  );
  anchors.sort((one, other) => other.size - one.size);
  // Those of one checkpoint stay together, so that the next page begins with a smaller one.
  const least = anchors[limit - 1]?.size ?? 0;
  const listed = anchors.filter(({ size }) => size >= least);
  return { anchors: listed, more: listed.length < anchors.length || pages.some(({ more }) => more) };
}

async function readState(
  reader: Reader,
  tenant: string,
  { since_size: since, size: wanted }: QueryParams<"audit_log">,
  nowMs: number,
): Promise<AuditLogState> {
  const { size, root, note, at } = await readLog(reader, tenant);
  const delayMs = await readTenantDelay(reader, tenant, nowMs);
  const state = { origin: logOrigin(tenant), size, root: base64(root), checkpoint: note, at };
  const log = { ...state, delay_ms: delayMs };
  if (since === undefined) return log;
  const restores = wanted === undefined ? await readRestores(reader, tenant) : [];
  const until = wanted ?? size;
  if (since > until || until > size) return { ...log, consistency: null, restores };
  const proof = proveConsistency(tilesOf(reader, tenantKeys(tenant)), since, until);
  return { ...log, consistency: (await fromTree(tenant, proof)).map(base64), restores };
}

/** Without those that have no receipt yet, or cannot have one. */
async function readRestores(reader: Reader, tenant: string): Promise<AuditProof[]> {
  const statements = await readRestoreStatements(reader, tenant, RESTORES_MAX);
  const receipts = statements.map((seq) =>
    prove(reader, { tenant, task: null }, { seq }).catch((error: unknown) => {
      if (error instanceof FleetError) return null;
      throw error;
    }),
  );
  return (await Promise.all(receipts)).flatMap((receipt) => receipt ?? []);
}

async function prove(
  reader: Reader,
  { tenant, task }: { readonly tenant: string; readonly task: string | null },
  { seq: wanted, size: earlier }: { readonly seq?: number | undefined; readonly size?: number | undefined },
): Promise<AuditProof> {
  const keys = tenantKeys(tenant);
  const last = await lastPlaced(reader, keys, task);
  const seq = wanted ?? Math.max(1, last);
  const value = await reader.get(task === null ? keys.tenantAudit(seq) : keys.audit(task, seq));
  const details = { ...(task !== null && { task_id: task }), seq };
  if (value === undefined) throw new FleetError("NOT_FOUND", "there is no such audit entry", { details });
  const index = await readPlace(reader, keys, { task, seq });
  if (index === null && seq <= last)
    throw new FleetError("CORRUPT", "the entry could not be verified when the audit log came to it", {
      details,
    });
  const { size: newest, note } = await readLog(reader, tenant);
  const size = Math.min(earlier ?? newest, newest);
  // The log of an earlier size never gets the entry.
  if (earlier !== undefined && (index === null || index >= size || size < earlier))
    throw new FleetError("NOT_FOUND", "the audit log of that size does not have the entry", {
      details: { ...details, size: earlier },
    });
  if (index === null || index >= size)
    throw new FleetError("UNAVAILABLE", "the entry is not in the audit log yet", {
      details,
      retryAfterMs: RETRY_AFTER_MS,
    });
  const publicKeys = (await listSigningKeys(reader)).map(({ public_key }) => public_key);
  const signed = note === null ? null : openCheckpoint(note, publicKeys);
  if (note === null || signed === null)
    throw new FleetError("CONFLICT", "the audit log is not signed with a registered key", {
      details: { ...details, setting: "FLEET_SIGNING_KEY" },
    });
  const proof = await fromTree(tenant, proveInclusion(tilesOf(reader, keys), index, size));
  const entry = { tenant, task_id: task, seq, entry: textIn(value, tenant) };
  return { ...entry, index, proof: proof.map(base64), checkpoint: note, public_key: signed.publicKey };
}

function textIn(value: Uint8Array, tenant: string): string {
  try {
    return decode<string>(value);
  } catch (cause) {
    throw new FleetError("CORRUPT", "the audit entry is damaged", { details: { tenant }, cause });
  }
}
