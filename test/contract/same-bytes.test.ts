// The same script must leave the same bytes on every engine. The complete keyspace is compared, key by key.
//
// Only the 10 bytes of a commit stamp depend on the engine. All code uses stamps by their order alone, so the
// test replaces each stamp by its rank among all stamps of the dump, which compares the order of commits too.
// Everything else is compared as it is: ids, times, hashes and their chain come from the script and the
// manual clock.
import { createHash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { DEFAULT_POLICIES } from "../../shared/protocol/policy.ts";
import { decode, encode } from "../../shared/records/kv/codec.ts";
import { systemKeys, tenantKeys } from "../../shared/records/kv/keyspace.ts";
import { acquireLease, requireLease } from "../../shared/records/leader/lease.ts";
import { clearPublished, readOutbox } from "../../shared/records/outbox/outbox.ts";
import { type IndexState, indexKey } from "../../shared/records/search/index-state.ts";
import { stepIndex } from "../../shared/records/search/indexer.ts";
import { clearExpired } from "../../shared/records/task/expiry.ts";
import { KEY_SPACE } from "../../shared/store/limits.ts";
import type { Bytes, Store, Tx } from "../../shared/store/store.ts";
import { STAMP_BYTES, STORE_LIMITS } from "../../shared/store/store.ts";
import { type ManualClock, manualClock } from "../harness/clock.ts";
import { acknowledge, initiate, offer } from "../harness/records/handoffs.ts";
import {
  create,
  ENGINES,
  finalize,
  input,
  openTestRecords,
  send,
  type TestRecords,
} from "../harness/records/records.ts";
import { checkpointOf, flip, spec, T0 } from "../shared/records/search/corpus.ts";

const TENANTS = ["default", "other"];
const HOURS_51 = 51 * 3_600_000;
const writing = { label: "script", deadlineMs: 10_000, onUnknown: "safe" } as const;

/** UUIDv7s that count up. */
function idsFrom(clock: ManualClock): () => string {
  let made = 0;
  return () => {
    const time = clock.now().toString(16).padStart(12, "0");
    made += 1;
    return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${made.toString(16).padStart(12, "0")}`;
  };
}

/** Incompressible text, the same in each run. */
const noise = (bytes: number): string =>
  Array.from({ length: bytes / 64 }, (_, n) =>
    createHash("sha512").update(`${n}`).digest("base64").slice(0, 64),
  ).join("");

/**
 * Every operation of the repository and of the background jobs, including refused and redelivered commands.
 */
async function runScript(
  { repository, store }: TestRecords,
  clock: ManualClock,
  seed: number,
): Promise<void> {
  const id = idsFrom(clock);
  const refused = (command: Promise<unknown>) => expect(command).rejects.toThrow();
  const made: { id: string; by: { tenant: string; agent: string; task: string } }[] = [];

  for (const [n, one] of fc.sample(spec, { seed, numRuns: 25 }).entries()) {
    await clock.advance(1 + one.at);
    const by = { tenant: TENANTS[n % 2]!, agent: one.agent, task: one.task };
    const commandId = id();
    const checkpoint = checkpointOf(one);
    await create(repository, { ...by, commandId, checkpoint });
    await create(repository, { ...by, commandId, checkpoint }); // redelivered
    await refused(create(repository, { ...by, commandId, checkpoint: input() }));
    for (const { phase, words } of one.updates) {
      const patch = { execution_state: { phase, current_focus: words.join(" ") } };
      await send(repository, "update", { checkpoint_id: commandId, patch }, { ...by, commandId: id() });
    }
    const parent = made.findLast((other) => other.by.task === by.task && other.by.tenant === by.tenant);
    if (parent !== undefined) {
      const link = { parent_id: parent.id, child_id: commandId };
      await send(repository, "link", link, { ...by, commandId: id() }).catch(() => {}); // already its parent
    }
    if (one.isFinal) {
      await finalize(repository, commandId, "succeeded", { ...by, commandId: id() });
      await refused(finalize(repository, commandId, "failed", { ...by, commandId: id() }));
    }
    made.push({ id: commandId, by });
    if (n % 4 === 0) await stepIndex(store, async () => {});
    if (n % 6 === 0) await publish(store);
  }

  const handedOff = { task: "passed", agent: "giver" };
  const handoffCheckpoint = id();
  await create(repository, {
    ...handedOff,
    commandId: handoffCheckpoint,
    checkpoint: input({ phase: "handoff" }),
  });
  const offered = await offer(repository, handoffCheckpoint, { prompt: noise(30_000) });
  const taker = { agent: "taker", commandId: id() };
  await acknowledge(repository, offered, taker);
  await acknowledge(repository, offered, taker); // redelivered
  await create(repository, { task: "passed", agent: "taker", fence: 1, commandId: id() });
  await initiate(repository, { task: "passed", agent: "taker", fence: 1, commandId: id() });
  await send(repository, "take", {}, { ...handedOff, commandId: id() });

  const large = input({ goal: noise(150_000) });
  await create(repository, { task: "large", commandId: id(), checkpoint: large });
  const bad = id();
  await create(repository, { task: "damaged", commandId: bad });
  await flip(store, "damaged", bad);
  await refused(repository.get("default", bad));
  await backgroundJobs(store, clock);
}

/** Clears published events, as the relay does. */
async function publish(store: Store): Promise<void> {
  await store.transact(writing, async (tx) => {
    const { entries } = await readOutbox(tx, 0, 3);
    clearPublished(tx, entries);
  });
}

async function backgroundJobs(store: Store, clock: ManualClock): Promise<void> {
  const wanted = { job: "expiry", holder: "one", nowMs: clock.now(), leaseMs: 10_000 } as const;
  const lease = await acquireLease(store, wanted);
  await clock.advance(HOURS_51);
  const expire = async (tx: Tx) => {
    await requireLease(tx, lease!);
    return await clearExpired(tx, clock.now(), 20);
  };
  expect((await store.transact(writing, expire)).value.cleared).toBe(20);
  await stepIndex(store, async () => {});
}

type Dump = [key: string, value: string][];
const hex = (bytes: Bytes) => Buffer.from(bytes).toString("hex");

async function dump(store: Store): Promise<Dump> {
  const raw: { key: Bytes; value: Bytes }[] = [];
  for (let { begin, end } = KEY_SPACE; ; begin = Buffer.concat([raw.at(-1)!.key, Buffer.of(0)])) {
    const limit = STORE_LIMITS.range_rows_max;
    const page = await store.read(writing, (reader) => reader.getRange({ begin, end }, { limit }));
    raw.push(...page.rows);
    if (!page.more) break;
  }
  const stamps = new Set<string>();
  const note = (stamp: Bytes) => {
    stamps.add(hex(stamp));
    return stamp;
  };
  for (const { key, value } of raw) withStamps(key, value, note);
  const ranks = new Map([...stamps].sort().map((stamp, rank) => [stamp, rank]));
  const rankOf = (stamp: Bytes) => Buffer.from(String(ranks.get(hex(stamp))).padStart(STAMP_BYTES, "0"));
  return raw.map(({ key, value }) => withStamps(key, value, rankOf).map(hex) as Dump[number]);
}

const prefixes = {
  stampedKeys: [systemKeys.feedRange(), ...Array.from({ length: 256 }, (_, n) => systemKeys.outboxRange(n))],
  commands: TENANTS.map((tenant) =>
    tenantKeys(tenant).command("00000000-0000-0000-0000-000000000000").subarray(0, -16),
  ),
};

const within = (key: Bytes, { begin, end }: { begin: Bytes; end: Bytes }) =>
  Buffer.compare(begin, key) <= 0 && Buffer.compare(key, end) < 0;

/** The row with `replace` applied to each stamp in it. */
function withStamps(key: Bytes, value: Bytes, replace: (stamp: Bytes) => Bytes): [key: Bytes, value: Bytes] {
  if (prefixes.stampedKeys.some((range) => within(key, range))) return [stampAtEnd(key, replace), value];
  if (prefixes.commands.some((prefix) => Buffer.compare(key.subarray(0, prefix.length), prefix) === 0)) {
    return [key, Buffer.concat([replace(value.subarray(0, STAMP_BYTES)), value.subarray(STAMP_BYTES)])];
  }
  if (Buffer.compare(key, indexKey()) === 0) {
    const state = decode<IndexState>(value); // the cursor is a feed key
    return [key, encode({ ...state, cursor: state.cursor && stampAtEnd(state.cursor, replace) })];
  }
  return [key, value];
}

/** Applies `replace` to the stamp of a key that ends in a stamp and two bytes of order. */
function stampAtEnd(key: Bytes, replace: (stamp: Bytes) => Bytes): Bytes {
  const at = key.length - STAMP_BYTES - 2;
  return Buffer.concat([key.subarray(0, at), replace(key.subarray(at, -2)), key.subarray(-2)]);
}

const FORMAT_KEY = Buffer.from(systemKeys.meta("format")).toString("hex");

async function dumpOn(engine: (typeof ENGINES)[number], seed: number): Promise<Dump> {
  const clock = manualClock(T0);
  // The same, however often an engine runs a transaction.
  const randomFill = (bytes: Buffer) => bytes.fill(0x5a);
  const bench = await openTestRecords(engine, () => clock.now(), DEFAULT_POLICIES, randomFill);
  try {
    await runScript(bench, clock, seed);
    const rows = await dump(bench.store);
    // Its message key is random.
    return rows.filter(([key]) => key !== FORMAT_KEY);
  } finally {
    await bench.close();
  }
}

const [reference, ...others] = ENGINES;

test.each([1, 2, 3])("script %i leaves the same bytes on all engines", async (seed) => {
  const expected = await dumpOn(reference!, seed);
  expect(expected.length).toBeGreaterThan(300);
  expect(expected).not.toEqual(await dumpOn(reference!, seed + 100));
  for (const engine of others) expect(await dumpOn(engine, seed), engine).toEqual(expected);
});
