/** The signatures by passkeys in export files, which have the acts about passkeys since format 6. */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { AuditEntry } from "../../../shared/lifecycle/replay.ts";
import { EsignatureVerifier } from "../../../shared/transfer/esignature-verifier.ts";
import { enrolledKey, signWithKey } from "../../harness/esign/passkey-person.ts";
import { create, openTestRecords, type TestRecords } from "../../harness/records/records.ts";

let records: TestRecords;

beforeEach(async () => {
  records = await openTestRecords("lmdb");
  await create(records.repository);
});
afterEach(() => records.close());

test("a file without acts is too old to prove a passkey, and a newer one lacks its act", async () => {
  await signWithKey(records.repository, await enrolledKey());
  const query = { task_id: "task-1", from_seq: 1, limit: 50 };
  const [listed] = (await records.repository.esignatures.list("default", query)).signatures;
  const { audit_seq: seq, signed, entry, passkey_acts } = listed!;
  const stateIn = (hasPasskeyActs: boolean, acts: object) => {
    const verifier = new EsignatureVerifier({ tenant: "default", task_id: "task-1" }, hasPasskeyActs);
    const line = { kind: "audit", seq, entry: entry!, esignature: signed!, ...acts } as const;
    verifier.add(line, JSON.parse(entry!) as AuditEntry);
    return verifier.blocks[0]?.state;
  };
  expect(stateIn(true, { passkey_acts })).toBe("valid");
  expect(stateIn(true, {})).toBe("passkey_unrecorded");
  expect(stateIn(false, {})).toBe("passkey_unproved");
});
