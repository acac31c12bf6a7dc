/** Verifies the electronic signatures of people against the entries that record them, in both directions, and against the signed versions. */

import { placedAct } from "../../../integrity/esign/enrolment-act.ts";
import { judgeEsignature } from "../../../integrity/esign/judgement.ts";
import type { AuditEntry } from "../../../lifecycle/replay.ts";
import { ESIGN_PROBLEMS } from "../../../protocol/esign.ts";
import { isCheckpointId } from "../../../protocol/ids.ts";
import { findVersion } from "../../checkpoint/lookup.ts";
import { decodeEsignature, decodeEsigned, ESIGNATURES_OF_TASK } from "../../esign/esign-record.ts";
import { readPasskeyActs } from "../../esign/passkey-acts.ts";
import { readable } from "../../kv/codec.ts";
import { parseSeq } from "../../kv/keyspace.ts";
import type { TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "./entries.ts";

export async function verifyEsignatures(
  scrub: TaskScrub,
  entries: readonly (AuditEntry | undefined)[],
): Promise<void> {
  for (const facts of entries) if (facts?.op === "signature_add") await verifyEsignature(scrub, facts);
}

async function verifyEsignature(scrub: TaskScrub, facts: AuditEntry): Promise<void> {
  const { reader, keys, tenant, task } = scrub;
  const { checkpoint_id, version, statement_hash } = facts;
  const seq = Number(facts.seq);
  if (typeof checkpoint_id !== "string" || !isCheckpointId(checkpoint_id) || typeof version !== "number")
    return;
  const [value, row] = await reader.getMany([
    keys.esignature(task, seq),
    keys.esigned(task, checkpoint_id, String(statement_hash)),
  ]);
  const listed = decodeEsigned(row);
  const isListed =
    listed?.checkpoint_id === checkpoint_id && listed.version === version && listed.seq === seq;
  const signed = decodeEsignature(value)?.signed ?? null;
  const hash = await hashOfVersion(scrub, checkpoint_id, version);
  const acts = (await readPasskeyActs(reader, tenant, facts.passkey_seq)).map(placedAct);
  const place = { tenant, task, checkpoint_id, version, hash, seq, facts, acts };
  const { problem } = judgeEsignature(signed, place);
  const details =
    value === undefined
      ? `entry ${seq} records an electronic signature that is lost`
      : problem !== null
        ? `${problem}: the electronic signature of entry ${seq}: ${ESIGN_PROBLEMS[problem]}`
        : !isListed
          ? `the electronic signature of entry ${seq} is not listed with its version`
          : null;
  if (details !== null) scrub.note({ kind: "esignature", checkpoint_id, version, details });
}

/** undefined: the version cannot be read, which is found when the checkpoints are verified. */
async function hashOfVersion(
  { reader, tenant }: TaskScrub,
  id: string,
  version: number,
): Promise<string | undefined> {
  const hit = await findVersion(reader, tenant, id, version);
  return hit?.found.sound === true ? hit.found.checkpoint.compliance.hash : undefined;
}

/** Verifies that no signature was added without an entry: it would seem to be one of the task. */
export async function verifyEsignaturesRecorded(scrub: TaskScrub): Promise<void> {
  const { reader, keys, task } = scrub;
  const { rows } = await reader.getRange(keys.esignatures(task), { limit: ESIGNATURES_OF_TASK });
  const seqs = rows.flatMap(({ key }) => readable(() => parseSeq(key)) ?? []);
  const entries = await reader.getMany(seqs.map((seq) => keys.audit(task, seq)));
  for (const [i, seq] of seqs.entries()) {
    if (readEntry(entries[i])?.facts?.op === "signature_add") continue;
    const details = `an electronic signature is stored for entry ${seq}, which records none`;
    scrub.note({ kind: "esignature", checkpoint_id: null, version: null, details });
  }
}
