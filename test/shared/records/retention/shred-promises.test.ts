/** The promises of a task whose shredding is requested: read in pages, and again if the task has changed meanwhile. */
import { afterEach, expect, test } from "vitest";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { refusal } from "../../../harness/records/handoffs.ts";
import { create, input, openTestRecords, send, type TestRecords } from "../../../harness/records/records.ts";

const OLGA = { task: "large", agent: "human=olga" };
const PAVEL = { task: "large", agent: "human=pavel" };
const LABEL = "shred_promises";
const CHECKPOINTS = 70;
/** Those of one page. */
const PAGE = 16;

let records: TestRecords;
afterEach(() => records.close());

/** A repository over a store that calls `onRead` after each reading of promises, with its number. */
async function openWatched(onRead: (reads: number) => Promise<unknown> = async () => {}) {
  records = await openTestRecords("memory");
  const { store, format } = records;
  let reads = 0;
  const watched: Store = Object.assign(Object.create(store) as Store, {
    transact: ((options, body) => store.transact(options, body)) satisfies Store["transact"],
    read: (async (options, body) => {
      const value = await store.read(options, body);
      if (options.label === LABEL) {
        reads += 1;
        await onRead(reads);
      }
      return value;
    }) satisfies Store["read"],
  });
  const repository = new CheckpointRepository({ store: watched, format, finder: "test", now: Date.now });
  for (let n = 0; n < CHECKPOINTS; n += 1) await create(records.repository, { task: "large" });
  return { repository, reads: () => reads };
}

const pages = (checkpoints: number) => Math.ceil(checkpoints / PAGE);
const request = (repository: CheckpointRepository) =>
  send(repository, "shred_request", { reason: "erasure" }, OLGA);
const promised = () =>
  create(records.repository, {
    task: "large",
    checkpoint: { ...input(), compliance: { retention_policy: "regulated" } },
  });

test("no reading opens more than a page, and a command that is refused anyway reads nothing", async () => {
  const { repository, reads } = await openWatched();
  const byAgent = send(
    repository,
    "shred_request",
    { reason: "erasure" },
    { task: "large", agent: "agent-1" },
  );
  expect(await refusal(byAgent)).toMatchObject({ code: "FORBIDDEN" });
  expect(reads()).toBe(0);
  const { shred } = await request(repository);
  expect(reads()).toBe(pages(CHECKPOINTS));
  // The request has changed the task.
  await send(repository, "shred_approve", { request_seq: shred?.request_seq }, PAVEL);
  expect(reads()).toBe(2 * pages(CHECKPOINTS));
});

test("a promise that is made between two pages, behind them or before the command is found", async () => {
  for (const at of [1, 3, pages(CHECKPOINTS)]) {
    const { repository } = await openWatched(async (reads) => (reads === at ? promised() : undefined));
    expect(await refusal(request(repository)), `after reading ${at}`).toMatchObject({
      ...{ code: "CONFLICT", details: { reason: "promised" } },
    });
    if (at !== pages(CHECKPOINTS)) await records.close();
  }
});

test("a task that changes all the time is refused, and the next command continues", async () => {
  let isBusy = true;
  const { repository } = await openWatched(async () => {
    if (isBusy) await create(records.repository, { task: "large" });
  });
  expect(await refusal(request(repository))).toMatchObject({ code: "UNAVAILABLE" });
  isBusy = false;
  expect(await request(repository)).toMatchObject({ shred: { state: "requested" } });
});

test("damage is named again until it is repaired", async () => {
  const { repository } = await openWatched();
  const key = tenantKeys("default").order("large", 40);
  const options = { label: "test", deadlineMs: 5_000, onUnknown: "safe" } as const;
  const sound = (await records.store.read(options, (reader) => reader.get(key)))!;
  const damaged = Uint8Array.from(sound);
  damaged[damaged.length - 3]! ^= 1;
  const write = (value: Uint8Array) => records.store.transact(options, async (tx) => tx.set(key, value));
  await write(damaged);
  for (let n = 0; n < 2; n += 1)
    expect(await refusal(request(repository))).toMatchObject({ code: "CORRUPT", details: { seq: 40 } });
  await write(sound);
  expect(await request(repository)).toMatchObject({ shred: { state: "requested" } });
});
