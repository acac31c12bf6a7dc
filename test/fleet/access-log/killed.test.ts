/** A fleet that is killed between a read and its entry: with `strict` no entry is missing, with `batched` the log shows where some may be. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { startFleet, type TestFleet } from "../../harness/processes/fleet.ts";
import { input } from "../../harness/records/records.ts";

const KILL_MS = 300_000;
const READERS = 8;
/** Answers before the kill. */
const ANSWERS = 200;
const DEADLINE_MS = 500;
/** The client repeats a read that was answered with UNAVAILABLE after at least half of the time that the answer names. */
const ATTEMPTS_MAX = 1 + DEADLINE_MS / (LIMITS.overload_retry_ms / 2);

let folder: string;
let fleet: TestFleet | undefined;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-access-"));
});
afterEach(async () => {
  await fleet?.stop();
  fleet = undefined;
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function started(mode: string): Promise<TestFleet> {
  const policy = join(folder, `${mode}.json`);
  writeFileSync(policy, JSON.stringify({ access_log: mode }));
  fleet = await startFleet({ FLEET_POLICY: policy, FLEET_THREADS: "2", FLEET_GATEWAY_PORT: "-1" });
  return fleet;
}

interface Reads {
  answered: number;
  /** With those that had no answer. */
  asked: number;
}

/** Reads one task each until the fleet is killed. Returns the reads of each. */
async function readUntilKilled(killed: TestFleet, client: FleetClient): Promise<readonly Reads[]> {
  const reads = Array.from({ length: READERS }, (): Reads => ({ answered: 0, asked: 0 }));
  for (const i of reads.keys()) await client.createCheckpoint({ taskId: `read-${i}`, checkpoint: input() });
  let isKilled = false;
  const readers = reads.map(async (own, i) => {
    while (!isKilled) {
      own.asked += 1;
      const read = await client
        .getLatestCheckpoint(`read-${i}`, { deadlineMs: DEADLINE_MS })
        .catch(() => null);
      if (read !== null) own.answered += 1;
    }
  });
  const total = () => reads.reduce((sum, { answered }) => sum + answered, 0);
  await expect.poll(total, { timeout: 120_000, interval: 1 }).toBeGreaterThan(ANSWERS);
  await killed.kill9();
  isKilled = true;
  await Promise.all(readers);
  return reads;
}

async function entriesOf(client: FleetClient, taskId: string): Promise<number> {
  let found = 0;
  let cursor: string | undefined;
  do {
    const page = await client.admin.accessLog.list({ taskId, limit: 500, cursor, deadlineMs: 60_000 });
    found += page.entries.filter(({ op }) => op === "query.latest").length;
    cursor = page.cursor;
  } while (cursor !== undefined);
  return found;
}

test("strict: each answered read has an entry after SIGKILL", { timeout: KILL_MS }, async () => {
  const killed = await started("strict");
  const client = await killed.client("reader-1");
  const reads = await readUntilKilled(killed, client);
  await killed.start();
  for (const [i, { answered, asked }] of reads.entries()) {
    const entries = await entriesOf(client, `read-${i}`);
    expect(entries, `read-${i}`).toBeGreaterThanOrEqual(answered);
    // A read whose answer was lost in the kill, or was given up, may have one too.
    expect(entries, `read-${i}`).toBeLessThanOrEqual(asked * ATTEMPTS_MAX);
  }
  expect(await client.admin.accessLog.verify({ deadlineMs: 60_000 })).toMatchObject({ ok: true });
});

test("batched: after SIGKILL the sessions of the killed processes are open", {
  timeout: KILL_MS,
}, async () => {
  const killed = await started("batched");
  const client = await killed.client("reader-1");
  await readUntilKilled(killed, client);
  await killed.start();
  const report = await client.admin.accessLog.verify({ deadlineMs: 60_000 });
  expect(report).toMatchObject({ ok: true, problems: [] });
  expect(report.open.length).toBeGreaterThanOrEqual(1);
  // What was written before is complete: entries are lost at the end of a session only.
  expect(report.records).toBeGreaterThanOrEqual(1);
});
