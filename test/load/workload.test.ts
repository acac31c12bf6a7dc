import { describe, expect, test } from "vitest";
import { canonicalBytes } from "../../shared/integrity/canonical.ts";
import { create, openTestRecords } from "../harness/records/records.ts";
import { createWorkload, seededRandom } from "./workload.ts";

describe("the workload", () => {
  test("is the same for the same seed, and another for another", () => {
    expect(createWorkload(5).checkpoint(3, 4)).toEqual(createWorkload(5).checkpoint(3, 4));
    expect(createWorkload(5).checkpoint(3, 4)).not.toEqual(createWorkload(6).checkpoint(3, 4));
  });

  test("differs for each agent and step", () => {
    const workload = createWorkload();
    const seen = new Set<string>();
    for (let agent = 0; agent < 40; agent += 1) {
      for (let step = 0; step < 25; step += 1) seen.add(JSON.stringify(workload.checkpoint(agent, step)));
    }
    expect(seen.size).toBe(1_000);
  });

  test("is accepted by the records layer, and has 4 KB in the store", async () => {
    const workload = createWorkload();
    const records = await openTestRecords("memory");
    const sizes: number[] = [];
    for (let step = 0; step < 60; step += 1) {
      const checkpoint = workload.checkpoint(step * 7, step);
      const { checkpoint_id } = await create(records.repository, { checkpoint });
      const stored = await records.repository.get("default", checkpoint_id);
      const { hash: _hash, ...compliance } = stored.compliance;
      sizes.push(canonicalBytes({ ...stored, compliance }).length);
    }
    await records.close();
    const mean = sizes.reduce((sum, size) => sum + size, 0) / sizes.length;
    expect(Math.abs(mean - 4_096)).toBeLessThan(100);
    for (const size of sizes) expect(Math.abs(size - 4_096)).toBeLessThan(400);
  });
});

test("seeded numbers fill [0, 1) evenly", () => {
  const random = seededRandom(42);
  const tenths = new Array<number>(10).fill(0);
  for (let i = 0; i < 10_000; i += 1) tenths[Math.floor(random() * 10)]! += 1;
  for (const count of tenths) expect(Math.abs(count - 1_000)).toBeLessThan(150);
});
