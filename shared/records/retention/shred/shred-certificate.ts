/** The certificate of a shredding in the store: made and signed in the transaction that ends the shredding, so there is never one without the other. */
import { createRemovedDigest, shredPayload } from "../../../integrity/shred/shred-certificate.ts";
import type { TaskRecord } from "../../../lifecycle/task.ts";
import { FleetError } from "../../../protocol/errors.ts";
import {
  SHRED_PAYLOAD_TYPE,
  type ShredCertificate,
  type ShredStatement,
} from "../../../protocol/shred-certificate.ts";
import type { Bytes, Reader, Tx } from "../../../store/store.ts";
import { decodeChecked, encodeChecked } from "../../kv/codec.ts";
import { after, parseSeq, systemKeys, type TenantKeys, tenantKeys } from "../../kv/keyspace.ts";
import { readEntry } from "../../scrub/trail/entries.ts";
import { signWith } from "../../signing/commit-signing.ts";
import { findSigningKey } from "../../signing/key-record.ts";
import { decodeHead } from "../../task/head.ts";
import { decodeTombstone } from "../tombstone.ts";

const PAGE = 500;

export type RemovedFacts = Pick<ShredStatement, "checkpoints" | "policies">;
type ReadStore = <T>(body: (reader: Reader) => Promise<T>) => Promise<T>;

interface TaskOfTenant {
  readonly tenant: string;
  readonly task: string;
}

/**
 * Of a task whose checkpoints are all removed: its tombstones no longer change, so they may be read in several snapshots. `repair` writes those at the given
 * positions again. Throws CORRUPT if one is still damaged after that.
 */
export async function readRemovedFacts(
  read: ReadStore,
  of: TaskOfTenant,
  repair: (positions: readonly number[]) => Promise<void>,
): Promise<RemovedFacts> {
  const first = await readTombstoneFacts(read, of);
  if (first.damaged.length === 0) return first.facts;
  await repair(first.damaged);
  const { facts, damaged } = await readTombstoneFacts(read, of);
  if (damaged.length === 0) return facts;
  const details = { task_id: of.task, seq: damaged[0] };
  throw new FleetError("CORRUPT", "the tombstone of a checkpoint is damaged, and so is its audit entry", {
    details,
  });
}

async function readTombstoneFacts(
  read: ReadStore,
  { tenant, task }: TaskOfTenant,
): Promise<{ readonly facts: RemovedFacts; readonly damaged: readonly number[] }> {
  const { begin, end } = tenantKeys(tenant).tombstones(task);
  const digest = createRemovedDigest();
  const policies = new Set<string>();
  const damaged: number[] = [];
  for (let from = begin; ; ) {
    const range = { begin: from, end };
    const { rows, more } = await read((reader) => reader.getRange(range, { limit: PAGE }));
    for (const { key, value } of rows) {
      const found = decodeTombstone(value);
      if (found === null) {
        damaged.push(parseSeq(key));
        continue;
      }
      const { id: checkpoint_id, version, hash, policy } = found;
      digest.add({ checkpoint_id, version, hash, seq: parseSeq(key) });
      policies.add(policy);
    }
    const last = rows.at(-1);
    if (!more || last === undefined)
      return { facts: { checkpoints: digest.finish(), policies: [...policies].sort() }, damaged };
    from = Buffer.from(after(last.key));
  }
}

type Row = readonly [payload: Bytes, keyId: string | null, signature: Bytes | null];

/** Throws UnreadableValue. */
export function decodeCertificate(value: Bytes) {
  const [payload, keyId, signature] = decodeChecked<Row>(value);
  return { payload, keyId, signature };
}

/** `head`: as `shred_end` has left it. */
export function writeCertificate(
  tx: Tx,
  { tenant, task_id: task, shred, audit_seq: seq, audit_hash: hash }: TaskRecord,
  facts: RemovedFacts & Pick<ShredStatement, "floor" | "keys">,
): void {
  if (shred == null) throw new RangeError("a certificate is of a task that was shredded");
  const statement: ShredStatement = {
    v: 1,
    ...{ tenant, task, reason: shred.reason, case: shred.case },
    request: { by: shred.requested_by, at: shred.requested_at, seq: shred.request_seq },
    approval: {
      by: shred.approved_by ?? "",
      at: shred.approved_at ?? "",
      seq: shred.approve_seq ?? 0,
    },
    end: { at: shred.ended_at ?? "", seq, hash },
    ...facts,
  };
  const payload = shredPayload(statement);
  const signed = signWith(tx, SHRED_PAYLOAD_TYPE, payload);
  const row: Row = [payload, signed?.keyId ?? null, signed?.signature ?? null];
  tx.set(systemKeys.shredCertificate(tenant, task), encodeChecked(row));
}

/** Whether a certificate was written with the end of the shredding. False: by an earlier version, which made none. An entry that cannot be read is damage. */
export async function isCertified(
  reader: Reader,
  keys: TenantKeys,
  { task_id, shred }: TaskRecord,
): Promise<boolean> {
  const entry = readEntry(await reader.get(keys.audit(task_id, shred?.end_seq ?? 0)));
  const { certified = 0 } = (entry?.facts ?? { certified: 1 }) as { readonly certified?: unknown };
  return certified === 1;
}

/** Throws NOT_FOUND: the task was not shredded, or by an earlier version. */
export async function readCertificate(
  reader: Reader,
  tenant: string,
  task: string,
): Promise<ShredCertificate> {
  const keys = tenantKeys(tenant);
  const [value, row] = await reader.getMany([systemKeys.shredCertificate(tenant, task), keys.task(task)]);
  if (value === undefined) {
    const head = row === undefined ? null : decodeHead(row);
    throw await absentCertificate(reader, keys, task, head);
  }
  const { payload, keyId: keyid, signature } = decodeCertificate(value);
  const key = keyid === null ? null : await findSigningKey(reader, keyid);
  const sig = signature === null ? null : Buffer.from(signature).toString("base64");
  return {
    envelope: {
      payloadType: SHRED_PAYLOAD_TYPE,
      payload: Buffer.from(payload).toString("base64"),
      signatures: keyid === null || sig === null ? [] : [{ keyid, sig }],
    },
    public_key: key?.public_key ?? null,
  };
}

async function absentCertificate(
  reader: Reader,
  keys: TenantKeys,
  task_id: string,
  head: TaskRecord | null,
): Promise<FleetError> {
  if (head?.shred?.state === "approved")
    return new FleetError(
      "NOT_FOUND",
      "the content of the task is being removed, and the certificate is made at the end",
      { details: { task_id, shred: "approved" } },
    );
  const shredded_at = head?.shred?.state === "shredded" ? head.shred.ended_at : null;
  if (head === null || shredded_at === null || (await isCertified(reader, keys, head)))
    return new FleetError("NOT_FOUND", "there is no certificate that the task was shredded", {
      details: { task_id, shred: head?.shred?.state ?? null },
    });
  return new FleetError(
    "NOT_FOUND",
    "the task was shredded by a version of Fleet that made no certificates; its audit trail names both persons and the time",
    { details: { task_id, shredded_at } },
  );
}
