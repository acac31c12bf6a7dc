/** The signatures beside a checkpoint that is read: damage, many of them, and a key that is away. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { signaturesBeside } from "../../../../shared/records/esign/beside.ts";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Reader } from "../../../../shared/store/store.ts";
import { enrolledKey, signWithKey } from "../../../harness/esign/passkey-person.ts";
import { esignBody } from "../../../harness/esign/signed-statement.ts";
import { create, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { WRITING } from "../../../harness/records/signed.ts";

const PERSON = { agent: "human=ada" };
const keys = tenantKeys("default");
const OF = { tenant: "default", task: "task-1" };
const READING = { label: "test", deadlineMs: 5_000 };
let records: TestRecords;
let id: string;

beforeEach(async () => {
  records = await openTestRecords("lmdb");
  id = (await create(records.repository)).checkpoint_id;
});
afterEach(() => records.close());

const sign = async (reason?: string): Promise<number> => {
  const wanted = { task: "task-1", ...(reason !== undefined && { changes: { reason } }) };
  const body = await esignBody(records.repository, wanted);
  return (await send(records.repository, "signature_add", body, PERSON)).audit_seq;
};
const found = () => records.repository.reads.find("default", id);

test("a checkpoint without signatures has none beside it", async () => {
  expect(Object.keys(await found())).toEqual(["checkpoint"]);
  await sign();
  const { electronic_signatures: signed } = await found();
  expect(signed).toMatchObject([{ state: "valid", version: 1, newest_version: 1 }]);
  expect(Object.keys(signed![0]!)).not.toContain("signed");
  expect(await records.repository.latest("default", "task-1")).toMatchObject({
    electronic_signatures: signed,
  });
  expect(Object.keys(await records.repository.reads.find("default", id, 1, { as_stored: true }))).toEqual([
    "checkpoint",
  ]);
});

test("a damaged signature is shown as such, and hides no checkpoint", async () => {
  const seq = await sign();
  await records.store.transact(WRITING, async (tx) =>
    tx.set(keys.esignature("task-1", seq), encodeChecked({ no: "signature" })),
  );
  expect(await found()).toMatchObject({
    checkpoint: { metadata: { checkpoint_id: id } },
    electronic_signatures: [{ state: "statement_invalid", printed_name: null, version: 1 }],
  });
});

test("the newest of many signatures are shown, with the number of the others", async () => {
  const person = await enrolledKey();
  for (let signed = 0; signed < 52; signed += 1) await signWithKey(records.repository, person);
  const { electronic_signatures: shown, electronic_signatures_left_out: leftOut } = await found();
  const all = await records.repository.esignatures.list("default", {
    ...{ task_id: "task-1", from_seq: 1, limit: 60 },
  });
  expect(leftOut).toBe(2);
  expect(shown!.map(({ audit_seq }) => audit_seq)).toEqual(
    all.signatures.slice(2).map(({ audit_seq }) => audit_seq),
  );
});

test("signatures whose key is away hide no checkpoint, and are reported as unread", async () => {
  await sign();
  const { checkpoint } = await found();
  const beside = (getMany: (reader: Reader) => Reader["getMany"]) =>
    records.store.read(READING, (reader) =>
      signaturesBeside(
        {
          get: (key) => reader.get(key),
          getRange: (range, options) => reader.getRange(range, options),
          getMany: getMany(reader),
        },
        OF,
        [checkpoint],
      ),
    );
  const away = () => Promise.reject(new FleetError("UNAVAILABLE", "the key is away"));
  expect(await beside(() => away)).toEqual({ electronic_signatures_unread: "UNAVAILABLE" });
  expect(await beside((reader) => (wanted) => reader.getMany(wanted))).toMatchObject({
    electronic_signatures: [{ state: "valid" }],
  });
});
