// Prompts are prepared after the first transition, once, and never after the coordinator has stopped.

import { afterEach, beforeEach, expect, test } from "vitest";
import { startPromptPreparation } from "../../../services/coordinator/prompt-preparation.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { testLog } from "../../harness/processes/nats.ts";
import { create, openTestRecords, type TestRecords } from "../../harness/records/records.ts";
import { wrappedStore } from "../../harness/stores/wrapped-store.ts";

let records: TestRecords;
beforeEach(async () => {
  records = await openTestRecords("lmdb");
});
afterEach(() => records.close());

/** Resolves when the transitions at the start are known. */
async function started() {
  let [count, reads] = [0, 0];
  const store = Object.assign(
    wrappedStore(records.store, (options, body) => records.store.transact(options, body)),
    {
      read: (async (options, body) => {
        const value = await records.store.read(options, body);
        if (options.label === "transitions") reads += 1;
        return value;
      }) satisfies typeof records.store.read,
    },
  );
  const prepare = () => {
    count += 1;
  };
  const stop = startPromptPreparation({ store, prompts: { prepare }, clock: systemClock, log: testLog });
  await expect.poll(() => reads, { timeout: 30_000 }).toBeGreaterThan(0);
  return { count: () => count, stop };
}

test("prepares prompts once, after the first transition since the start", async () => {
  await create(records.repository);
  const { count, stop } = await started();
  expect(count()).toBe(0);
  await create(records.repository);
  await expect.poll(count, { timeout: 30_000 }).toBe(1);
  await create(records.repository);
  await stop();
  expect(count()).toBe(1);
}, 90_000);

test("prepares nothing after a stop", async () => {
  const { count, stop } = await started();
  await stop();
  await create(records.repository);
  expect(count()).toBe(0);
});
