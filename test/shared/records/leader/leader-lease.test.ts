/** The leases of background jobs: one instance does a job, one commit renews all leases of an instance, and a job that hangs loses its lease. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { systemKeys } from "../../../../shared/records/kv/keyspace.ts";
import { createLeaderLeases, type LeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { LeaseLost, requireLease } from "../../../../shared/records/leader/lease.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { openTestRecords, type TestRecords } from "../../../harness/records/records.ts";
import { wrappedStore } from "../../../harness/stores/wrapped-store.ts";

const { leader_renew_ms: renewMs, leader_lease_ms: leaseMs } = LIMITS;
const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;

let records: TestRecords;
let nowMs: number;
/** The labels of the transactions. */
let commits: string[];
let store: Store;
let fails: Error | undefined;

beforeEach(async () => {
  records = await openTestRecords("lmdb");
  nowMs = 1_000_000;
  commits = [];
  fails = undefined;
  store = wrappedStore(records.store, (transaction, body) => {
    commits.push(transaction.label);
    return fails === undefined ? records.store.transact(transaction, body) : Promise.reject(fails);
  });
});
afterEach(() => records.close());

const instance = (name: string): LeaderLeases => createLeaderLeases(store, name, () => nowMs);

describe("the leases of one instance", () => {
  test("are renewed together, in one transaction for all jobs", async () => {
    const leases = instance("one");
    const jobs = (["index", "mirror", "relay-0", "relay-1"] as const).map((job) => leases.of(job));
    await Promise.all(jobs.map((job) => job.hold()));
    expect(commits).toEqual(Array.from({ length: 4 }, () => "acquire_lease"));
    for (let round = 0; round < 5; round += 1) {
      commits = [];
      nowMs += renewMs;
      const held = await Promise.all(jobs.map((job) => job.hold()));
      expect(held.map((lease) => lease?.fence)).toEqual([1, 1, 1, 1]);
      // Later in the same interval as well.
      nowMs += 200;
      await Promise.all(jobs.map((job) => job.hold()));
      expect(commits).toEqual(["renew_leases"]);
    }
  });

  test("that were acquired at different times are renewed together from then on", async () => {
    const leases = instance("one");
    const [early, late] = [leases.of("index"), leases.of("mirror")];
    await early.hold();
    nowMs += renewMs / 2;
    await late.hold();
    commits = [];
    nowMs += renewMs / 2;
    await early.hold();
    nowMs += renewMs / 2;
    expect(await late.hold()).not.toBeNull();
    expect(commits).toEqual(["renew_leases"]);
  });

  test("belong to it alone as long as it asks for them", async () => {
    const [mine, others] = [instance("one").of("index"), instance("two").of("index")];
    await mine.hold();
    for (let passed = 0; passed < 3 * leaseMs; passed += renewMs) {
      expect(await others.hold()).toBeNull();
      nowMs += renewMs;
      expect(await mine.hold()).not.toBeNull();
    }
  });

  test("a job that hangs loses its lease while other jobs of the instance keep theirs", async () => {
    const leases = instance("one");
    const [hanging, working] = [leases.of("index"), leases.of("mirror")];
    const [lost] = [await hanging.hold(), await working.hold()];
    for (let passed = 0; passed < 2 * leaseMs; passed += renewMs) {
      nowMs += renewMs;
      await working.hold();
    }
    const other = instance("two");
    expect(await other.of("mirror").hold()).toBeNull();
    expect((await other.of("index").hold())?.fence).toBe(2);
    const write = records.store.transact(options, (tx) => requireLease(tx, lost!));
    await expect(write).rejects.toThrow(LeaseLost);
    expect(await hanging.hold()).toBeNull();
  });

  test("a lease that another instance took is not renewed, and the others are", async () => {
    const leases = instance("one");
    const [index, mirror] = [leases.of("index"), leases.of("mirror")];
    await Promise.all([index.hold(), mirror.hold()]);
    nowMs += leaseMs + 1; // The instance was frozen.
    const other = instance("two").of("index");
    expect((await other.hold())?.fence).toBe(2);
    const [lost, kept] = await Promise.all([index.hold(), mirror.hold()]);
    expect(lost).toBeNull();
    expect(kept?.fence).toBe(1);
    await other.release();
    expect((await index.hold())?.fence).toBe(3);
  });

  test("a released lease is free at once, and a renewal does not bring it back", async () => {
    const leases = instance("one");
    const [index, mirror] = [leases.of("index"), leases.of("mirror")];
    await Promise.all([index.hold(), mirror.hold()]);
    nowMs += renewMs;
    await Promise.all([mirror.hold(), index.release()]);
    nowMs += renewMs;
    await mirror.hold();
    expect(await instance("two").of("index").hold()).not.toBeNull();
  });

  test("a lease that cannot be read stops its own job only", async () => {
    const leases = instance("one");
    const [index, mirror] = [leases.of("index"), leases.of("mirror")];
    await Promise.all([index.hold(), mirror.hold()]);
    await records.store.transact(options, async (tx) =>
      tx.set(systemKeys.lease("index"), Buffer.from([0xc1])),
    );
    nowMs += renewMs;
    const [damaged, other] = await Promise.allSettled([index.hold(), mirror.hold()]);
    expect(damaged.status).toBe("rejected");
    expect(other).toMatchObject({ status: "fulfilled", value: { fence: 1 } });
  });

  test("a failed renewal is an error of the job that asked, and the next one tries again", async () => {
    const index = instance("one").of("index");
    await index.hold();
    nowMs += renewMs;
    fails = new Error("the store is unavailable");
    await expect(index.hold()).rejects.toThrow(fails);
    fails = undefined;
    expect((await index.hold())?.fence).toBe(1);
  });
});
