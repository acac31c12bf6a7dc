/**
 * Verifies the shredding of a task: its certificate is there, is signed, and states what the head and the trail of the task say; and none of the content
 * that it says to be removed has come back.
 */
import { entryHash } from "../../../integrity/chain.ts";
import { isTextSignature, signedBytes } from "../../../integrity/dsse.ts";
import type { TaskRecord } from "../../../lifecycle/task.ts";
import { SHRED_PAYLOAD_TYPE, shredStatementSchema } from "../../../protocol/shred-certificate.ts";
import type { Bytes } from "../../../store/store.ts";
import { readable } from "../../kv/codec.ts";
import { systemKeys } from "../../kv/keyspace.ts";
import { decodeCertificate, isCertified } from "../../retention/shred/shred-certificate.ts";
import { findSigningKey } from "../../signing/key-record.ts";
import { decodeHead } from "../../task/head.ts";
import { ofTask, type TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "../trail/entries.ts";

/** What a shredding removes with the last checkpoint of its task. */
const CONTENT = ["checkpoints", "versions", "chunks", "order", "children"] as const;

export async function verifyShredding(scrub: TaskScrub): Promise<void> {
  const { reader, keys, tenant, task } = scrub;
  const [value, row] = await reader.getMany([keys.task(task), systemKeys.shredCertificate(tenant, task)]);
  // A damaged head is a finding of its own.
  const head = value === undefined ? null : readable(() => decodeHead(value));
  if (head === null) return;
  if (head.shred?.state !== "shredded") {
    if (row !== undefined)
      note(scrub, "its certificate says that the task was shredded, and its head does not");
    return;
  }
  if (row !== undefined) await verifyCertificate(scrub, head, row);
  else if (await isCertified(reader, keys, head)) note(scrub, "the certificate of its shredding is lost");
  for (const subspace of CONTENT) {
    const { rows } = await reader.getRange(keys.ofTask(subspace, task), { limit: 1 });
    if (rows.length > 0) note(scrub, `content of the shredded task has come back (${subspace})`);
  }
}

async function verifyCertificate(scrub: TaskScrub, head: TaskRecord, row: Bytes): Promise<void> {
  const { reader, keys, tenant, task } = scrub;
  const certificate = readable(() => decodeCertificate(row));
  const statement = certificate === null ? null : statementIn(certificate.payload);
  if (certificate === null || statement === null)
    return note(scrub, "the certificate of its shredding cannot be read");
  const { request_seq, approve_seq, end_seq } = head.shred!;
  const { request, approval, end } = statement;
  const entry = readEntry(await reader.get(keys.audit(task, end.seq)));
  const isOwn =
    statement.tenant === tenant &&
    statement.task === task &&
    request.seq === request_seq &&
    approval.seq === approve_seq &&
    end.seq === end_seq &&
    entry !== null &&
    entryHash(entry.text) === end.hash;
  if (!isOwn) note(scrub, "the certificate of its shredding differs from the trail");
  const { payload, keyId, signature } = certificate;
  // A service without a signing key signs nothing.
  if (keyId === null || signature === null) return;
  const key = await findSigningKey(reader, keyId);
  const isSigned =
    key !== null && isTextSignature(key.public_key, signedBytes(SHRED_PAYLOAD_TYPE, payload), signature);
  if (!isSigned) note(scrub, "the signature of the certificate of its shredding does not verify");
}

function statementIn(payload: Bytes) {
  try {
    return shredStatementSchema.parse(JSON.parse(Buffer.from(payload).toString()));
  } catch {
    return null;
  }
}

function note(scrub: TaskScrub, details: string): void {
  scrub.note(ofTask("shredding", details));
}
