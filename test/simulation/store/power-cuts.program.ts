/**
 * Program: simulates clients of a database with faults and power cuts, once for each seed from its first argument to its second, and prints
 * what the simulations found.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type Bytes, type Store, StoreError } from "../../../shared/store/store.ts";
import { seededRandom } from "../../load/workload.ts";
import { SimulatedProcess } from "../time/processes.ts";
import { simulate } from "../time/run.ts";
import { SimulatedDatabase, type StoreFaultPlan } from "./database.ts";

const FAULTS: StoreFaultPlan = {
  latencyMs: 5,
  conflicts: 0.05,
  unknown: 0.05,
  stalls: 0.02,
  stallMs: 800,
  pauses: 0.2,
  pauseMs: 10,
};
const LIMITS = { limitMs: 600_000, eventsMax: 1_000_000 };
const CLIENTS = 3;
const CUTS = 3;
const SETTLE_MS = 60_000;

export interface PowerCutFindings {
  seeds: number;
  acknowledged: number;
  /** Acknowledged writes that are missing, and counts that are not the sum of the writes. */
  lost: number;
  wrongSums: number;
  /** Writes without an answer that are in the store, and those that are not. */
  unknownKept: number;
  unknownLost: number;
  faults: Record<string, number>;
}

const numberIn = (value: Bytes | undefined): number => Number(Buffer.from(value ?? "0").toString());
type Outcome = "sent" | "acknowledged" | "refused";
const text = (value: string): Buffer => Buffer.from(value);

async function write(store: Store, key: string, outcomes: Map<string, Outcome>): Promise<void> {
  outcomes.set(key, "sent");
  try {
    await store.transact({ label: "write", deadlineMs: 2_000, onUnknown: "safe" }, async (tx) => {
      if ((await tx.get(text(key))) !== undefined) return;
      const sum = numberIn(await tx.get(text("sum")));
      tx.set(text("sum"), text(String(sum + 1)));
      tx.set(text(key), Buffer.alloc(600, key));
    });
    outcomes.set(key, "acknowledged");
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (error.committed === "no") outcomes.set(key, "refused");
    await sleep(20);
  }
}

function startClient(database: SimulatedDatabase, name: string, outcomes: Map<string, Outcome>) {
  const client = new SimulatedProcess(name);
  client.run(async () => {
    const store = await database.open();
    for (let n = 0; ; n += 1) await write(store, `${name}/${n}`, outcomes);
  });
  return client;
}

async function work(database: SimulatedDatabase, outcomes: Map<string, Outcome>): Promise<void> {
  for (let cut = 0; cut < CUTS; cut += 1) {
    const clients = Array.from({ length: CLIENTS }, (_, n) =>
      startClient(database, `c${cut}-${n}`, outcomes),
    );
    await sleep(50 + Math.random() * 1_000);
    for (const client of clients) client.kill();
    database.cutPower();
    await sleep(10);
    database.start();
  }
  database.faults = { ...FAULTS, conflicts: 0, unknown: 0, stalls: 0 };
  await sleep(SETTLE_MS);
}

async function judge(database: SimulatedDatabase, outcomes: Map<string, Outcome>, found: PowerCutFindings) {
  const store = await database.open();
  const [present, sum] = await store.read({ label: "judge", deadlineMs: 5_000 }, async (reader) => {
    const { rows } = await reader.getRange({ begin: text("c"), end: text("d") }, { limit: 10_000 });
    return [new Set(rows.map(({ key }) => Buffer.from(key).toString())), await reader.get(text("sum"))];
  });
  for (const [key, outcome] of outcomes) {
    if (outcome === "acknowledged") {
      found.acknowledged += 1;
      if (!present.has(key)) found.lost += 1;
    } else if (outcome === "refused") {
      if (present.has(key)) found.lost += 1;
    } else if (present.has(key)) found.unknownKept += 1;
    else found.unknownLost += 1;
  }
  if (numberIn(sum) !== present.size) found.wrongSums += 1;
}

const [first, last] = process.argv.slice(2).map(Number) as [number, number];
const found: PowerCutFindings = {
  ...{ seeds: 0, acknowledged: 0, lost: 0, wrongSums: 0, unknownKept: 0, unknownLost: 0 },
  faults: {},
};
for (let seed = first; seed <= last; seed += 1) {
  await simulate(seed, LIMITS, async () => {
    const database = new SimulatedDatabase({ random: seededRandom(seed), faults: FAULTS });
    const outcomes = new Map<string, Outcome>();
    await work(database, outcomes);
    await judge(database, outcomes, found);
    for (const [name, count] of Object.entries(database.counts))
      found.faults[name] = (found.faults[name] ?? 0) + count;
  });
  found.seeds += 1;
}
process.stdout.write(JSON.stringify(found));
