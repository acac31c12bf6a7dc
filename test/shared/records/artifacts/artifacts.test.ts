// The records of artifacts on every engine: a reference and a removal at the same time, and uploads at the same time.

import { uuidv7 } from "uuidv7";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { NO_TASK } from "../../../../shared/protocol/alerts.ts";
import { dueRecords, removeDue } from "../../../../shared/records/artifacts/sweep.ts";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { create, ENGINES, input } from "../../../harness/records/records.ts";
import { scrub } from "../../../harness/records/scrub.ts";
import { TestTasks } from "../../../harness/records/tasks.ts";

const GRACE_MS = 1_000;
const ROUNDS = 25;
const by = { tenant: "default", caller: "agent-1" } as const;
const rules = { graceMs: GRACE_MS, totalBytesMax: 1_000_000 };

describe.each(ENGINES)("artifacts on %s", (engine) => {
  let place: TestTasks;
  beforeAll(async () => {
    place = await TestTasks.open(engine);
  });
  afterAll(() => place.close());

  const sweep = () => ({
    store: place.store,
    service: "reader",
    now: () => place.now,
    graceMs: GRACE_MS,
    guard: async () => {},
  });
  const hashOf = (n: number): string => n.toString(16).padStart(64, "0");

  async function stored(sha256: string, size = 10): Promise<string> {
    const upload = uuidv7();
    expect(await place.repository.artifacts.begin(by, { upload, sha256, size, replaces: null }, rules)).toBe(
      false,
    );
    expect(await place.repository.artifacts.store(by, upload, null)).toMatchObject({ isKept: true });
    return upload;
  }

  test("of a reference and a removal at the same time, one sees the other", async () => {
    const outcomes = new Set<string>();
    for (let n = 1; n <= ROUNDS; n += 1) {
      const sha256 = hashOf(n);
      await stored(sha256);
      place.now += GRACE_MS + 1;
      const task = place.fresh();
      const artifacts = [{ sha256, size: 10, name: "a", media_type: "text/plain" }];
      const written = create(place.repository, { task, checkpoint: { ...input(), artifacts } }).then(
        () => "committed",
        (error: { code: string }) => error.code,
      );
      const removed = removeDue(sweep(), { tenant: "default", kind: "artifact", id: sha256 });
      const [outcome, upload] = await Promise.all([written, removed]);
      const record = await place.repository.artifacts.record("default", sha256);
      outcomes.add(outcome);
      if (outcome === "committed") {
        expect(upload).toBeNull();
        expect(record).not.toBeNull();
      } else {
        expect(outcome).toBe("INVALID");
        expect(upload).not.toBeNull();
        expect(record).toBeNull();
      }
    }
    expect([...outcomes].every((one) => one === "committed" || one === "INVALID")).toBe(true);
    expect((await scrub({ store: place.store, repository: place.repository })).findings).toEqual([]);
  });

  test("uploads at the same time cannot exceed the limit of the tenant together", async () => {
    const { total_bytes: before } = await place.repository.artifacts.list("default", { limit: 1 }, rules);
    const size = 400_000;
    const begun = await Promise.allSettled(
      [1_001, 1_002, 1_003].map((n) =>
        place.repository.artifacts.begin(
          by,
          { upload: uuidv7(), sha256: hashOf(n), size, replaces: null },
          rules,
        ),
      ),
    );
    const fit = Math.floor((rules.totalBytesMax - before) / size);
    expect(begun.filter(({ status }) => status === "fulfilled")).toHaveLength(fit);
    const { total_bytes: total } = await place.repository.artifacts.list("default", { limit: 1 }, rules);
    expect(total).toBe(before + fit * size);
  });

  test("a record of another form stays, and the sweep finds those after it", async () => {
    const own = await TestTasks.open(engine);
    try {
      const keys = tenantKeys("default");
      const [wrong, due] = [uuidv7(), uuidv7()];
      const begun = { upload: due, sha256: hashOf(1), size: 7, replaces: null };
      await own.repository.artifacts.begin(by, begun, rules);
      await own.store.transact({ label: "test", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) => {
        tx.set(keys.artifact(hashOf(1)), encodeChecked(7));
        tx.set(keys.artifactUpload(wrong), encodeChecked(null));
      });
      const found = [];
      const later = { ...sweep(), store: own.store, now: () => own.now + GRACE_MS + 1 };
      for await (const record of dueRecords(later, "default")) found.push(record);
      expect(found).toEqual([{ tenant: "default", kind: "upload", id: due }]);
    } finally {
      await own.close();
    }
  });

  test("an upload that does not end releases its bytes after the grace time, and no earlier", async () => {
    const upload = uuidv7();
    await place.repository.artifacts.begin(
      by,
      { upload, sha256: hashOf(2_001), size: 7, replaces: null },
      rules,
    );
    const candidate = { tenant: "default", kind: "upload", id: upload } as const;
    const total = async () =>
      (await place.repository.artifacts.list("default", { limit: 1 }, rules)).total_bytes;
    const before = await total();
    expect(await removeDue(sweep(), candidate)).toBeNull();
    place.now += GRACE_MS + 1;
    expect(await removeDue(sweep(), candidate)).toEqual({ upload, size: 7 });
    expect(await total()).toBe(before - 7);
    await expect(place.repository.artifacts.upload(by, upload)).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  test("the second upload of the same bytes is not needed, and the artifact keeps those of the first", async () => {
    const sha256 = hashOf(3_001);
    const second = uuidv7();
    await place.repository.artifacts.begin(by, { upload: second, sha256, size: 10, replaces: null }, rules);
    const first = await stored(sha256);
    expect(await place.repository.artifacts.store(by, second, null)).toMatchObject({ isKept: false });
    expect((await place.repository.artifacts.record("default", sha256))?.upload).toBe(first);
    expect(await place.repository.artifacts.store(by, first, null)).toMatchObject({ isKept: true });
  });

  test("of two uploads that replace the same damaged bytes, one does, and the bytes count once", async () => {
    const sha256 = hashOf(3_501);
    const damaged = await stored(sha256, 20);
    const total = async () =>
      (await place.repository.artifacts.list("default", { limit: 1 }, rules)).total_bytes;
    const before = await total();
    const repairs = [uuidv7(), uuidv7()];
    for (const upload of repairs) {
      const wanted = { upload, sha256, size: 20, replaces: damaged };
      expect(await place.repository.artifacts.begin(by, wanted, rules)).toBe(false);
    }
    const done = await Promise.all(
      repairs.map((upload) => place.repository.artifacts.store(by, upload, damaged)),
    );
    expect(done.filter(({ isKept }) => isKept)).toEqual([
      { isKept: true, replaced: { upload: damaged, size: 20 } },
    ]);
    expect(await total()).toBe(before);
    const record = await place.repository.artifacts.record("default", sha256);
    expect(record?.upload).toBe(repairs[done.findIndex(({ isKept }) => isKept)]);
    // A late verdict about bytes that are no longer those of the artifact.
    const late = { upload: uuidv7(), sha256, size: 20, replaces: damaged };
    expect(await place.repository.artifacts.begin(by, late, rules)).toBe(true);
  });

  test("the scrub finds a lost record, lost references and lost bytes of an artifact, and nothing else", async () => {
    const sha256 = hashOf(4_001);
    const upload = await stored(sha256);
    const task = place.fresh();
    const artifacts = [{ sha256, size: 10, name: "a", media_type: "text/plain" }];
    const made = await create(place.repository, { task, checkpoint: { ...input(), artifacts } });
    const keys = tenantKeys("default");
    const id = made.checkpoint_id;
    let size = 10;
    const details = async () => {
      const { artifacts: all } = await place.repository.artifacts.list("default", { limit: 100 }, rules);
      const hashes = new Map<string, string>();
      for (const { sha256: one } of all) {
        const record = await place.repository.artifacts.record("default", one);
        if (record !== null) hashes.set(record.upload, one);
      }
      const parts = { store: place.store, repository: place.repository };
      const { findings } = await scrub(parts, {
        artifacts: {
          size: async (one) => (one.upload === upload ? size : 10),
          hash: async (one) => hashes.get(one.upload) ?? null,
          graceMs: GRACE_MS,
        },
        now: () => place.now,
      });
      return findings.map(({ kind, task_id, details }) => ({ kind, task_id, details }));
    };
    expect(await details()).toEqual([]);
    const found = (text: string) => [{ kind: "artifact", task_id: task, details: text }];
    size = 9;
    expect(await details()).toEqual(found(`bytes of its artifact ${sha256} are lost`));
    size = 10;
    const lost = `the entry that keeps its artifact ${sha256} is lost`;
    for (const [key, text] of [
      [keys.artifact(sha256), `the record of its artifact ${sha256} is lost or cannot be read`],
      [keys.artifactReference(sha256, task, id), lost],
      [keys.checkpointArtifact(task, id, sha256), lost],
    ] as const) {
      const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
      const before = await place.store.read(options, (reader) => reader.get(key));
      await place.store.transact(options, async (tx) => tx.clear(key));
      expect(await details()).toEqual(found(text));
      await place.store.transact(options, async (tx) => tx.set(key, before!));
      expect(await details()).toEqual([]);
    }
  });

  describe("the sample of the scrub", () => {
    const hashes = new Map<string, string | null>();
    const hashed: string[] = [];
    const pass = async () => {
      hashed.length = 0;
      const { findings } = await scrub(
        { store: place.store, repository: place.repository },
        {
          artifacts: {
            size: async () => 10,
            hash: async ({ upload }) => {
              hashed.push(upload);
              return hashes.has(upload) ? (hashes.get(upload) ?? null) : hashOfUpload(upload);
            },
            graceMs: GRACE_MS,
          },
          now: () => place.now,
        },
      );
      return findings.map(({ kind, task_id, checkpoint_id, details }) => [
        kind,
        task_id,
        checkpoint_id,
        details,
      ]);
    };
    const sound = new Map<string, string>();
    const hashOfUpload = (upload: string): string | null => sound.get(upload) ?? null;
    const readSound = async () => {
      const { artifacts } = await place.repository.artifacts.list("default", { limit: 100 }, rules);
      for (const { sha256 } of artifacts) {
        const record = await place.repository.artifacts.record("default", sha256);
        if (record !== null) sound.set(record.upload, sha256);
      }
    };

    test("finds lost and damaged bytes in every pass until an upload repairs them", async () => {
      const sha256 = hashOf(5_001);
      const upload = await stored(sha256);
      const task = place.fresh();
      const artifacts = [{ sha256, size: 10, name: "a", media_type: "text/plain" }];
      const { checkpoint_id: id } = await create(place.repository, {
        task,
        checkpoint: { ...input(), artifacts },
      });
      await readSound();
      expect(await pass()).toEqual([]);
      const found = [["artifact", task, id, `the bytes of its artifact ${sha256} are lost or damaged`]];
      for (const other of [hashOf(1), null]) {
        hashes.set(upload, other);
        expect(await pass()).toEqual(found);
        expect(await pass()).toEqual(found);
      }
      const repair = uuidv7();
      const wanted = { upload: repair, sha256, size: 10, replaces: upload };
      expect(await place.repository.artifacts.begin(by, wanted, rules)).toBe(false);
      expect(await place.repository.artifacts.store(by, repair, upload)).toMatchObject({ isKept: true });
      await readSound();
      expect(await pass()).toEqual([]);
    });

    test("finds a reference that leads to nothing, and an artifact that the removal forgot", async () => {
      const sha256 = hashOf(5_002);
      await stored(sha256);
      await readSound();
      const nowhere = tenantKeys("default").artifactReference(sha256, "gone", uuidv7());
      const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
      await place.store.transact(options, async (tx) => tx.set(nowhere, new Uint8Array(0)));
      expect(await pass()).toMatchObject([
        [
          "artifact",
          "gone",
          {},
          `a reference to the artifact ${sha256} is of a checkpoint that does not exist`,
        ],
      ]);
      await place.store.transact(options, async (tx) => tx.clear(nowhere));
      expect(await pass()).toEqual([]);
      place.now += 3 * 3_600_000;
      const forgotten = (await pass()).map(([, task, , details]) => [task, details]);
      expect(forgotten).toContainEqual([
        NO_TASK,
        `the artifact ${sha256} has no reference, and was not removed after its grace time`,
      ]);
      place.now -= 3 * 3_600_000;
    });

    test("is bounded, and the next pass continues it", async () => {
      const large = 200 * 1_048_576;
      const uploads = ["d", "e", "f"].map((digit) => ({ upload: uuidv7(), sha256: digit.repeat(64) }));
      for (const { upload, sha256 } of uploads) {
        const wanted = { upload, sha256, size: large, replaces: null };
        await place.repository.artifacts.begin(by, wanted, { ...rules, totalBytesMax: 10 * large });
        await place.repository.artifacts.store(by, upload, null);
        sound.set(upload, sha256);
      }
      const names = uploads.map(({ upload }) => upload);
      await pass();
      expect(hashed.filter((one) => names.includes(one))).toEqual(names.slice(0, 2));
      await pass();
      expect(hashed).toEqual(names.slice(2));
      await pass();
      expect(hashed.filter((one) => names.includes(one))).toEqual(names.slice(0, 2));
    });
  });
});
