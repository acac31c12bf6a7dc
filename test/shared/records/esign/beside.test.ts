/** The signatures beside a checkpoint that is read: damage, many of them, and a key that is away. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Checkpoint } from "../../../../shared/protocol/checkpoint.ts";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { signaturesBeside } from "../../../../shared/records/esign/beside.ts";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import type { Reader } from "../../../../shared/store/store.ts";
import { enrolledKey, signWithKey } from "../../../harness/esign/passkey-person.ts";
import { esignBody } from "../../../harness/esign/signed-statement.ts";
import { create, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";
import { WRITING } from "../../../harness/records/signed.ts";
import { indexAll, search } from "../search/corpus.ts";

const PERSON = { agent: "human=ada" };
const keys = tenantKeys("default");
const READING = { label: "test", deadlineMs: 5_000 };
let records: TestRecords;
let id: string;

beforeEach(async () => {
  records = await openTestRecords("lmdb");
  id = (await create(records.repository)).checkpoint_id;
});
afterEach(() => {
  vi.restoreAllMocks();
  return records.close();
});

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

/** Rows of the index alone, as many signatures leave them. Each is shown as damaged. */
async function listSigned(task: string, checkpoint_id: string, count: number): Promise<void> {
  await records.store.transact(WRITING, async (tx) => {
    for (let seq = 1; seq <= count; seq += 1)
      tx.set(
        keys.esigned(task, checkpoint_id, seq.toString(16).padStart(64, "0")),
        encodeChecked([checkpoint_id, 1, seq]),
      );
  });
}

/** `ranges` gets the number of rows of each range that is read. */
function counted(reader: Reader, ranges: number[]): Reader {
  return {
    get: (key) => reader.get(key),
    getMany: (wanted) => reader.getMany(wanted),
    async getRange(range, options) {
      const page = await reader.getRange(range, options);
      ranges.push(page.rows.length);
      return page;
    },
  };
}

/** The signatures beside checkpoints, and the numbers of rows that were read in each range. */
async function besideAll(checkpoints: readonly Checkpoint[]) {
  const ranges: number[] = [];
  const value = await records.store.read(READING, (reader) =>
    signaturesBeside(counted(reader, ranges), "default", checkpoints),
  );
  const { electronic_signatures: shown = [], ...rest } = value;
  return { shown: shown.map((one) => [one.checkpoint_id, one.audit_seq]), rest, ranges };
}

async function written(...tasks: string[]): Promise<Checkpoint[]> {
  const all: Checkpoint[] = [];
  for (const task of tasks) {
    const { checkpoint_id } = await create(records.repository, { task });
    all.push(await records.repository.get("default", checkpoint_id));
  }
  return all;
}

test("those of many tasks are read at once, and apart only where many lie between", async () => {
  const [a, b, c] = await written("task-a", "task-b", "task-c");
  const idOf = (one: Checkpoint | undefined) => one!.metadata.checkpoint_id;
  const page = [c!, a!];
  expect(await besideAll(page)).toEqual({ shown: [], rest: {}, ranges: [0] });
  await sign();
  expect(await besideAll(page)).toEqual({ shown: [], rest: {}, ranges: [0] });
  await listSigned("task-b", idOf(b), 2);
  expect(await besideAll(page)).toEqual({ shown: [], rest: {}, ranges: [2] });
  await listSigned("task-a", idOf(a), 1);
  await listSigned("task-c", idOf(c), 2);
  const expected = [
    [idOf(c), 1],
    [idOf(c), 2],
    [idOf(a), 1],
  ];
  expect(await besideAll(page)).toEqual({ shown: expected, rest: {}, ranges: [5] });
  await listSigned("task-b", idOf(b), 100);
  expect(await besideAll(page)).toEqual({ shown: expected, rest: {}, ranges: [100, 2, 1] });
  expect(await besideAll([a!])).toEqual({ shown: [[idOf(a), 1]], rest: {}, ranges: [1] });
});

test("a service that needs the checkpoint alone reads no signatures", async () => {
  await sign();
  const ranges: number[] = [];
  const { store, repository } = records;
  const read = store.read.bind(store);
  vi.spyOn(store, "read").mockImplementation((options, body) =>
    read(options, (reader) => body(counted(reader, ranges))),
  );
  const { checkpoint } = await found();
  const withThem = ranges.splice(0).length;
  expect(await repository.get("default", id)).toEqual(checkpoint);
  expect(ranges).toHaveLength(withThem - 1);
});

test("of too many on a page the first tasks keep theirs, and of a task the newest are shown", async () => {
  const [a, b, c] = await written("task-a", "task-b", "task-c");
  const [idA, idB, idC] = [a, b, c].map((one) => one!.metadata.checkpoint_id) as [string, string, string];
  await listSigned("task-a", idA, 3);
  await listSigned("task-b", idB, 48);
  await listSigned("task-c", idC, 4);
  const { shown, rest } = await besideAll([b!, c!, a!]);
  expect(rest).toEqual({ electronic_signatures_left_out: 5 });
  expect(shown).toHaveLength(50);
  expect(shown.slice(48)).toEqual([
    [idC, 3],
    [idC, 4],
  ]);
});

test("a search and a recovery point have them, each of its own checkpoints", async () => {
  await written("task-2", "task-3");
  await sign();
  await indexAll(records.store);
  const signed = { ...{ checkpoint_id: id, state: "valid", version: 1, newest_version: 1 } };
  const { electronic_signatures: shown, checkpoints } = await search(records.repository, {});
  expect(checkpoints).toHaveLength(3);
  expect(shown).toMatchObject([signed]);
  expect(Object.keys(shown![0]!)).not.toContain("signed");
  expect(await search(records.repository, { task_id: "task-1" })).toMatchObject({
    electronic_signatures: [signed],
  });
  expect(await search(records.repository, { task_id: "task-2" })).not.toHaveProperty("electronic_signatures");
  const pointOf = async (task_id: string) =>
    (await records.repository.recoveryPoint("default", { task_id, force: false })).point;
  expect(await pointOf("task-1")).toMatchObject({ electronic_signatures: [signed] });
  expect(await pointOf("task-2")).not.toHaveProperty("electronic_signatures");
  expect(await pointOf("nothing")).not.toHaveProperty("electronic_signatures");
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
        "default",
        [checkpoint],
      ),
    );
  const away = () => Promise.reject(new FleetError("UNAVAILABLE", "the key is away"));
  expect(await beside(() => away)).toEqual({ electronic_signatures_unread: "UNAVAILABLE" });
  expect(await beside((reader) => (wanted) => reader.getMany(wanted))).toMatchObject({
    electronic_signatures: [{ state: "valid" }],
  });
});
