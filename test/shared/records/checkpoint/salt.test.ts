/** The hash of a version covers random bytes that go with its content: who knows all the rest cannot find out the content by trying hashes. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canonicalText, sha256Hex } from "../../../../shared/integrity/canonical.ts";
import { hashOf } from "../../../../shared/integrity/seal.ts";
import type { Checkpoint } from "../../../../shared/protocol/checkpoint.ts";
import { DEFAULT_POLICIES } from "../../../../shared/protocol/policy.ts";
import { decode, readable } from "../../../../shared/records/kv/codec.ts";
import { encodeRecord, openRecord, recordHash } from "../../../../shared/records/mission/sealed-record.ts";
import { stepShredding } from "../../../../shared/records/retention/shred/shred-sweep.ts";
import { checkImportedVersion } from "../../../../shared/records/transfer/import.ts";
import { KEY_SPACE } from "../../../../shared/store/limits.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../../../harness/records/records.ts";

const SALT = /^[0-9a-f]{64}$/;

describe.each(ENGINES)("on %s", (engine) => {
  let bench: TestRecords;
  beforeEach(async () => {
    bench = await openTestRecords(engine);
  });
  afterEach(() => bench.close());

  /** The guess of a diagnosis, by one who knows the checkpoint but for that, and perhaps but for the salt. */
  function isGuessed(
    { compliance, ...rest }: Checkpoint,
    guess: string,
    { withSalt }: { readonly withSalt: boolean },
  ): boolean {
    const { hash, salt, ...known } = compliance;
    const execution_state = { ...rest.execution_state, goal: guess };
    const all = { ...known, ...(withSalt && { salt }) };
    return sha256Hex(canonicalText({ ...rest, execution_state, compliance: all })) === hash;
  }

  test("each version has a salt of its own", async () => {
    const task = "patient";
    const { checkpoint_id: id } = await create(bench.repository, {
      task,
      checkpoint: input({ goal: "negative" }),
    });
    const versions = [await bench.repository.get("default", id)];
    await send(
      bench.repository,
      "update",
      { checkpoint_id: id, expected_version: 1, patch: { body: "x" } },
      { task },
    );
    versions.push(await bench.repository.get("default", id));
    await finalize(bench.repository, id, "succeeded", { task });
    versions.push(await bench.repository.get("default", id));
    const fork = await send(bench.repository, "fork", { source_task_id: task }, { task: "other" });
    versions.push(await bench.repository.get("default", fork.checkpoint_id));
    const salts = versions.map(({ compliance }) => compliance.salt);
    for (const salt of salts) expect(salt).toMatch(SALT);
    expect(new Set(salts).size).toBe(4);
    for (const version of versions) {
      expect(hashOf(version)).toBe(version.compliance.hash);
      const guessed = (withSalt: boolean) =>
        ["positive", "negative"].filter((guess) => isGuessed(version, guess, { withSalt }));
      expect(guessed(false)).toEqual([]);
      expect(guessed(true)).toEqual(["negative"]);
    }
  });

  test("a writer makes the salt: one that was read is replaced, and a patch cannot set it", async () => {
    const { checkpoint_id: id } = await create(bench.repository);
    const read = await bench.repository.get("default", id);
    const { checkpoint_id: _id, ...metadata } = read.metadata;
    const again = await send(bench.repository, "create", { checkpoint: { ...read, metadata } as never });
    const copy = await bench.repository.get("default", again.checkpoint_id);
    expect(copy.compliance.salt).toMatch(SALT);
    expect(copy.compliance.salt).not.toBe(read.compliance.salt);
    const patch = { compliance: { salt: "0".repeat(64) } };
    await expect(
      send(bench.repository, "update", { checkpoint_id: id, expected_version: 1, patch }),
    ).rejects.toMatchObject({ code: "INVALID", fields: [{ path: "patch.compliance.salt" }] });
  });

  test("after a shredding the hash is still there, and the salt is nowhere", async () => {
    const task = "patient";
    const { checkpoint_id: id } = await create(bench.repository, {
      task,
      checkpoint: input({ goal: "negative" }),
    });
    const { hash, salt } = (await bench.repository.get("default", id)).compliance;
    expect(await rowsWith(salt!)).not.toEqual([]);
    const by = (agent: string) => ({ task, agent });
    const { shred } = await send(bench.repository, "shred_request", { reason: "erasure" }, by("human=olga"));
    await send(bench.repository, "shred_approve", { request_seq: shred?.request_seq }, by("human=pavel"));
    const sweep = { store: bench.store, incarnation: bench.format.incarnation, service: "test" };
    const step = { ...sweep, policies: DEFAULT_POLICIES, now: () => Date.now() + 1, guard: async () => {} };
    const swept = await stepShredding({ ...step, eraseMessages: async () => {} });
    expect(swept).toMatchObject({ ended: [{ task }], failed: [] });
    expect(await rowsWith(salt!)).toEqual([]);
    expect(await rowsWith(hash)).not.toEqual([]);
  });

  /** The keys of rows with a text, in their bytes or in what they encode. */
  async function rowsWith(text: string): Promise<string[]> {
    const { rows } = await bench.store.read({ label: "test", deadlineMs: 20_000 }, (reader) =>
      reader.getRange(KEY_SPACE, { limit: 10_000 }),
    );
    const found = rows.filter(({ value }) => {
      const decoded = value.length === 0 ? null : readable(() => decode<unknown>(value));
      return Buffer.from(value).includes(text) || JSON.stringify(decoded)?.includes(text);
    });
    return found.map(({ key }) => Buffer.from(key).toString("latin1"));
  }
});

test("a version of before, in which the agent named a member of its own so, is imported", async () => {
  const bench = await openTestRecords("memory");
  const { checkpoint_id: id } = await create(bench.repository);
  const { compliance, ...rest } = await bench.repository.get("default", id);
  const { hash: _hash, signature: _signature, ...kept } = compliance;
  const checkpoint = { ...rest, compliance: { ...kept, salt: "of the sea" } };
  const hash = sha256Hex(canonicalText(checkpoint));
  const command = { checkpoint, hash } as unknown as Parameters<typeof checkImportedVersion>[0];
  expect(checkImportedVersion(command).compliance.salt).toBe("of the sea");
  await bench.close();
});

test("equal records of a mission have different hashes", () => {
  const record = { title: "positive" };
  const [one, two] = [encodeRecord(record, 3), encodeRecord(record, 3)];
  expect(recordHash(one)).not.toBe(recordHash(two));
  expect(openRecord(one)).toEqual({ value: record, auditSeq: 3 });
});
