import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { ByteReader } from "../../../shared/store/optimistic/bytes.ts";
import type { BatchResult, Slab } from "../../../shared/store/optimistic/commit.ts";
import { Overlay } from "../../../shared/store/optimistic/overlay.ts";
import { CommitQueue } from "../../../shared/store/optimistic/queue.ts";
import { ReadSet } from "../../../shared/store/optimistic/request.ts";
import { StoreError } from "../../../shared/store/store.ts";
import { manualClock } from "../../harness/clock.ts";

/** A queue whose batches the test commits; `batches` has the size of each request of each batch. */
function bench(paceMs = 0) {
  const clock = manualClock();
  const batches: number[][] = [];
  let answer: PromiseWithResolvers<BatchResult>;
  let slabs: Slab[] = [];
  const queue = new CommitQueue({
    clock,
    paceMs,
    commit: (handed) => {
      slabs = handed;
      batches.push(handed.flatMap(sizes));
      answer = Promise.withResolvers();
      return answer.promise;
    },
    committed: () => undefined,
  });
  let sequence = 0n;
  return {
    clock,
    batches,
    queue,
    submit: (size: number, priority: "default" | "batch" = "default") => {
      const overlay = new Overlay();
      overlay.set(Buffer.from("k"), Buffer.alloc(size));
      return queue.submit({ sequence: 0n, reads: new ReadSet(), overlay }, priority);
    },
    /** Commits the current batch, so that the next one is handed over. */
    commit: async () => {
      const requests = slabs.reduce((sum, slab) => sum + slab.requests, 0);
      const outcomes = BigUint64Array.from({ length: requests }, () => ++sequence);
      answer.resolve({ outcomes, sequence, buffers: slabs.map(({ buffer }) => buffer) });
      await turn();
    },
    fail: async (error: StoreError) => {
      answer.reject(error);
      await turn();
    },
  };
}

/** The size of the value that each request sets. */
function sizes({ buffer, requests }: Slab): number[] {
  const input = new ByteReader(buffer);
  return Array.from({ length: requests }, () => {
    const end = input.offset + input.u32();
    input.offset += 10;
    input.sized();
    input.u8();
    input.sized();
    const { length } = input.sized();
    input.offset = end;
    return length;
  });
}

it("batches the requests of one turn, and those that arrive during a commit", async () => {
  const { batches, submit, commit, queue } = bench();
  const first = [submit(1), submit(2)];
  await turn();
  const later = [submit(3), submit(4)];
  await commit();
  await Promise.all(first.map(({ done }) => done));
  await commit();
  await Promise.all(later.map(({ done }) => done));
  await queue.idle();
  expect(batches).toEqual([
    [1, 2],
    [3, 4],
  ]);
});

it("makes batch work wait for default work, but not longer than 50 ms", async () => {
  const { batches, submit, commit, clock } = bench();
  submit(1);
  await turn();
  submit(100, "batch");
  submit(2);
  await commit();
  submit(3);
  await clock.advance(49);
  await commit();
  submit(4);
  await clock.advance(1);
  await commit();
  expect(batches).toEqual([[1], [2], [3], [4, 100]]);
});

it("spaces the beginnings of batches, except for the first after an idle time", async () => {
  const { batches, submit, commit, clock } = bench(5);
  submit(1);
  await turn();
  expect(batches).toEqual([[1]]);
  submit(2);
  await commit();
  submit(3);
  await clock.advance(4);
  expect(batches).toEqual([[1]]);
  await clock.advance(1);
  expect(batches).toEqual([[1], [2, 3]]);
  await clock.advance(5);
  await commit();
  submit(4);
  await turn();
  expect(batches.at(-1)).toEqual([4]);
});

it("commits batch work when no default work waits", async () => {
  const { batches, submit } = bench();
  submit(100, "batch");
  await turn();
  expect(batches).toEqual([[100]]);
});

it("bounds a batch, and accepts requests larger than a slab", async () => {
  const { batches, submit, commit } = bench();
  for (let n = 0; n < 20; n++) submit(400_000);
  submit(900_000);
  await turn();
  await commit();
  await commit();
  expect(batches.flat()).toHaveLength(21);
  expect(batches.length).toBeGreaterThan(1);
  for (const batch of batches) expect(batch.reduce((sum, size) => sum + size)).toBeLessThan(9_000_000);
});

it("passes a failure to every request of the batch, and commits the next one", async () => {
  const { submit, fail, commit } = bench();
  const failing = [submit(1), submit(2)];
  const results = Promise.allSettled(failing.map(({ done }) => done));
  await turn();
  const next = submit(3);
  await fail(new StoreError("unavailable", "no space"));
  for (const result of await results) expect(result).toMatchObject({ reason: { kind: "unavailable" } });
  await commit();
  expect(await next.done).toHaveLength(10);
});

it("reports whether a request can still be withdrawn", async () => {
  const { submit } = bench();
  const first = submit(1);
  expect(first.handedOver).toBe(false);
  await turn();
  expect(first.handedOver).toBe(true);
  const second = submit(2);
  expect(second.handedOver).toBe(false);
});
