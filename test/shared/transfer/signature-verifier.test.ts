/** The signatures of an exported task, in files that a program has changed. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AuditEntry } from "../../../shared/lifecycle/replay.ts";
import type { ExportLineOf } from "../../../shared/protocol/export-lines.ts";
import { SignatureVerifier } from "../../../shared/transfer/signature-verifier.ts";
import { create } from "../../harness/records/records.ts";
import { openSignedRecords, type SignedRecords } from "../../harness/records/signed.ts";

type AuditLine = ExportLineOf<"audit">;

let records: SignedRecords;

beforeEach(async () => {
  records = await openSignedRecords("memory");
  for (let n = 1; n <= 2; n += 1) await create(records.repository);
});
afterEach(() => records.close());

async function lines(): Promise<AuditLine[]> {
  const query = { task_id: "task-1", from_seq: 1, limit: 10, signatures: true };
  const { entries, signatures = [] } = await records.repository.audit("default", query);
  const { keys } = await records.repository.signingKeys.list();
  return entries.map(({ seq, entry }, i) => {
    const { envelope } = signatures[i]!;
    return { kind: "audit", seq, entry, signature: envelope!, ...(i === 0 && { signing_key: keys[0]! }) };
  });
}

function countsOf(some: readonly AuditLine[], isRequired: boolean) {
  const verifier = new SignatureVerifier(isRequired);
  for (const line of some) verifier.add(line, JSON.parse(line.entry) as AuditEntry);
  verifier.end();
  return { ...verifier.counts, keys: [...verifier.keyIds] };
}

const without = ({ signature: _signature, signing_key: _key, ...line }: AuditLine): AuditLine => line;

function unsignedEntry(line: AuditLine): AuditLine {
  const { signed_by: _key, ...facts } = JSON.parse(line.entry) as Record<string, unknown>;
  return { ...without(line), entry: JSON.stringify(facts) };
}

test("each entry is signed by the key in the file", async () => {
  const counts = {
    signed: 2,
    unsigned: 0,
    signature_problems: 0,
    signatures_unread: 0,
    keys: [records.key.id],
  };
  expect(countsOf(await lines(), true)).toEqual(counts);
});

test("signatures that are taken out of the file are missed, because the entries name their keys", async () => {
  const taken = (await lines()).map(without);
  for (const isRequired of [false, true])
    expect(countsOf(taken, isRequired)).toMatchObject({ signed: 0, unsigned: 0, signature_problems: 2 });
});

test("unsigned entries are a problem only of a fleet that states that all its entries are signed", async () => {
  const unsigned = (await lines()).map(unsignedEntry);
  expect(countsOf(unsigned, false)).toMatchObject({ unsigned: 2, signature_problems: 0 });
  expect(countsOf(unsigned, true)).toMatchObject({ unsigned: 0, signature_problems: 2 });
});

test("entries whose signatures were not answered are counted apart, but not where all must be signed", async () => {
  const [first, second] = (await lines()) as [AuditLine, AuditLine];
  const gap = [first, { ...without(second), signature_unread: true as const }];
  const counts = { signed: 1, unsigned: 0, signature_problems: 0, signatures_unread: 1 };
  expect(countsOf(gap, false)).toMatchObject(counts);
  expect(countsOf(gap, true)).toMatchObject({ signed: 1, signature_problems: 1, signatures_unread: 0 });
});
