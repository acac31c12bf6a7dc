/**
 * Verifies the signatures of entries in a chain. An entry that names no key is unsigned: an earlier version wrote it, or a service without a
 * key. It is counted, and a finding only in a store in which every entry must be signed.
 */

import { entryHash } from "../../../integrity/chain.ts";
import { judgeEntries, type SignedFacts } from "../../../integrity/commit-signature.ts";
import { ACCESS_CHAIN } from "../../../protocol/access-log.ts";
import { SIGNATURE_PROBLEMS, type SignatureProblem } from "../../../protocol/signing-keys.ts";
import type { Bytes } from "../../../store/store.ts";
import { readable } from "../../kv/codec.ts";
import { parseSeq, type TenantKeys } from "../../kv/keyspace.ts";
import { areSignaturesRequired } from "../../signing/key-record.ts";
import { KeyLookup, readSignatures } from "../../signing/stored-signatures.ts";
import { ofTask, type ScrubStep, type TaskScrub } from "../scrub-reader.ts";
import { readEntry } from "./entries.ts";

interface ScrubbedEntry {
  readonly seq: number;
  /** null: it cannot be read, which is found when the chain is verified. */
  readonly read: { readonly text: string; readonly facts: SignedFacts | undefined } | null;
}

interface StepKeys {
  readonly lookup: KeyLookup;
  readonly isRequired: boolean;
}

/** The keys as the snapshot of the step has them. */
const keysOf = new WeakMap<ScrubStep, Promise<StepKeys>>();

function keysIn(step: ScrubStep): Promise<StepKeys> {
  const known = keysOf.get(step);
  if (known !== undefined) return known;
  const { reader } = step;
  const found = areSignaturesRequired(reader).then((isRequired) => ({
    lookup: new KeyLookup(reader),
    isRequired,
  }));
  keysOf.set(step, found);
  return found;
}

/** `entries`: those of the task, of the tenant's chain (`task` null), or blocks of the access log, from one read. */
export async function verifySignatures(
  scrub: TaskScrub,
  task: string | null,
  entries: readonly ScrubbedEntry[],
): Promise<void> {
  const [first] = entries;
  if (first === undefined) return;
  const { reader, keys, tenant, step } = scrub;
  const { lookup, isRequired } = await keysIn(step);
  const part = { task, from: first.seq, count: entries.length };
  const [signatures, value] = await Promise.all([
    readSignatures(reader, keys, lookup, part),
    reader.get(entryKey(keys, task, first.seq - 1)),
  ]);
  const known = entries.flatMap(({ seq, read }) =>
    read?.facts === undefined ? [] : [{ seq, hash: entryHash(read.text), facts: read.facts }],
  );
  const before = readEntry(value)?.facts?.at;
  const of = { tenant, task };
  for (const { seq, facts, problem } of judgeEntries({
    of,
    entries: known,
    signatures,
    before,
    isRequired,
  })) {
    if (facts.signed_by === undefined) step.tally.unsigned_entries += 1;
    if (problem !== null && problem !== "unsigned") note(scrub, seq, problem);
  }
}

function entryKey(keys: TenantKeys, task: string | null, seq: number): Bytes {
  if (task === ACCESS_CHAIN) return keys.accessBlock(seq);
  return task === null ? keys.tenantAudit(seq) : keys.audit(task, seq);
}

function note(scrub: TaskScrub, seq: number, problem: SignatureProblem): void {
  scrub.note(ofTask("signature", `${problem}: entry ${seq}: ${SIGNATURE_PROBLEMS[problem]}`));
}

/** Verifies that no signature after the end of the chain outlived its entry: then the end was cut off. */
export async function verifyNoneAfter(scrub: TaskScrub, task: string | null, end: number): Promise<void> {
  const { reader, keys } = scrub;
  const range = { begin: keys.signature(task, end + 1), end: keys.signatures(task).end };
  const [row] = (await reader.getRange(range, { limit: 1 })).rows;
  const seq = row && readable(() => parseSeq(row.key));
  if (seq == null) return;
  const entry = await reader.get(entryKey(keys, task, seq));
  if (entry === undefined)
    scrub.note(ofTask("signature", `entry_missing: entry ${seq} was signed and is lost`));
}
