// The ends of an operation: by its deadline, its caller, its age, its body, or the closing of the store.

import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "vitest";
import { STORE_LIMITS, type StoreError, type Tx } from "../../../shared/store/store.ts";
import { manualClock } from "../../harness/clock.ts";
import type { Bench } from "./bench.ts";
import { look, once, overtaken, stored, testSpace, text, textOf, write } from "./space.ts";

const never = () => new Promise<never>(() => {});

export function endingCases(bench: Bench): void {
  attemptCases(bench);
  callerCases(bench);
  ageCases(bench);
  closingCases(bench);
}

function attemptCases({ store }: Bench): void {
  it("gives the body a new Tx per attempt; an earlier one throws", async () => {
    const key = testSpace().key("a");
    const seen: Tx[] = [];
    const { attempts } = await write(store(), async (tx) => {
      seen.push(tx);
      await tx.get(key);
      tx.set(key, text("mine"));
      if (seen.length === 1) await write(store(), async (other) => other.set(key, text("other")));
    });
    expect(attempts).toBe(2);
    expect(seen.map(({ attempt }) => attempt)).toEqual([1, 2]);
    for (const tx of seen) {
      expect(() => tx.set(key, text("late"))).toThrow();
      await expect(tx.get(key)).rejects.toThrow();
      await expect(tx.snapshot.get(key)).rejects.toThrow();
    }
    expect(await stored(store(), key)).toBe("mine");
  });

  it("rethrows an error of the body, and writes nothing", async () => {
    const key = testSpace().key("a");
    const reason = new Error("refused");
    const run = write(store(), async (tx) => {
      tx.set(key, text("x"));
      throw reason;
    });
    await expect(run).rejects.toBe(reason);
    expect(await stored(store(), key)).toBeUndefined();
  });

  it("gives up after maxAttempts", async () => {
    const key = testSpace().key("a");
    let runs = 0;
    const options = { label: "contract", deadlineMs: 20_000, onUnknown: "safe", maxAttempts: 3 } as const;
    const run = store().transact(options, async (tx) => {
      runs += 1;
      await tx.get(key);
      tx.set(key, text("mine"));
      await write(store(), async (other) => other.set(key, text(`other ${runs}`)));
    });
    await expect(run).rejects.toMatchObject({ kind: "conflict", committed: "no" });
    expect(runs).toBe(3);
    expect(await stored(store(), key)).toBe("other 3");
  });
}

function callerCases({ store }: Bench): void {
  it("ends at its deadline even when the body hangs", async () => {
    const options = { label: "contract", deadlineMs: 50, onUnknown: "safe" } as const;
    const deadline = { kind: "deadline", committed: "no" };
    await expect(store().transact(options, never)).rejects.toMatchObject(deadline);
    await expect(store().read(options, never)).rejects.toMatchObject(deadline);
  });

  it("ends at its deadline even when it always conflicts", async () => {
    const key = testSpace().key("a");
    const options = { label: "contract", deadlineMs: 200, onUnknown: "safe" } as const;
    const run = store().transact(options, async (tx) => {
      await tx.get(key);
      tx.set(key, text("mine"));
      await write(store(), async (other) => other.set(key, text(String(tx.attempt))));
    });
    // The deadline may pass during the last attempt's commit. That one conflicts too, but its answer comes
    // too late.
    await expect(run).rejects.toSatisfy(({ kind, committed }: StoreError) =>
      committed === "no" ? kind === "deadline" : kind === "commit_unknown",
    );
    expect(await stored(store(), key)).not.toBe("mine");
  });

  it("ends when its signal aborts, before or during the attempt", async () => {
    const key = testSpace().key("a");
    const options = { label: "contract", deadlineMs: 20_000, onUnknown: "safe" } as const;
    const aborted = { kind: "aborted", committed: "no" };
    const before = store().transact({ ...options, signal: AbortSignal.abort() }, async (tx) => {
      tx.set(key, text("x"));
    });
    await expect(before).rejects.toMatchObject(aborted);
    const controller = new AbortController();
    const during = store().transact({ ...options, signal: controller.signal }, async (tx) => {
      tx.set(key, text("x"));
      controller.abort();
      return await never();
    });
    await expect(during).rejects.toMatchObject(aborted);
    expect(await stored(store(), key)).toBeUndefined();
  });
}

function ageCases({ store, can }: Bench): void {
  it("refuses a transaction older than 4 s, and retries it", { timeout: 60_000 }, async () => {
    const clock = manualClock();
    const aged = can.openWithClock === undefined ? store() : await can.openWithClock(clock);
    const grow = (ms: number) => (can.openWithClock === undefined ? pause(ms) : clock.advance(ms));
    const key = testSpace().key("a");
    try {
      const tooOld = once(aged, async (tx) => {
        await tx.get(key);
        await grow(STORE_LIMITS.transaction_ms_max + 1_500);
        tx.set(key, text("x"));
      });
      await expect(tooOld).rejects.toMatchObject({ committed: "no" });
      expect(await stored(aged, key)).toBeUndefined();
      const retried = await write(aged, async (tx) => {
        await tx.get(key);
        if (tx.attempt === 1) await grow(STORE_LIMITS.transaction_ms_max + 1_500);
        tx.set(key, text("second"));
      });
      expect(retried.attempts).toBe(2);
      expect(await stored(aged, key)).toBe("second");
    } finally {
      if (aged !== store()) await aged.close({ drainMs: 1_000 });
    }
  });

  it("fails an expired transaction even when its body ignores the failures", {
    timeout: 60_000,
  }, async () => {
    if (can.openWithClock === undefined) return;
    const clock = manualClock();
    const aged = await can.openWithClock(clock);
    const key = testSpace().key("a");
    const run = once(aged, async (tx) => {
      tx.set(key, text("x"));
      await clock.advance(STORE_LIMITS.transaction_ms_max + 1);
      await tx.get(key).catch(() => undefined);
    });
    await expect(run).rejects.toMatchObject({ kind: "too_old", committed: "no" });
    expect(await stored(aged, key)).toBeUndefined();
    await aged.close({ drainMs: 1_000 });
  });
}

function closingCases({ open }: Bench): void {
  it("finishes running operations, then refuses all", async () => {
    const store = await open();
    const key = testSpace().key("a");
    const gate = Promise.withResolvers<void>();
    const running = write(store, async (tx) => {
      await gate.promise;
      tx.set(key, text("x"));
    });
    const closing = store.close({ drainMs: 10_000 });
    const closed = { kind: "closed" };
    await expect(write(store, async (tx) => tx.set(key, text("y")))).rejects.toMatchObject(closed);
    gate.resolve();
    expect((await running).stamp).not.toBeNull();
    await closing;
    await expect(look(store, (reader) => reader.get(key))).rejects.toMatchObject(closed);
    expect((await store.health({ timeoutMs: 1_000 })).ok).toBe(false);
  });

  it("does not wait for a body that hangs", async () => {
    const store = await open();
    const stuck = expect(write(store, never)).rejects.toMatchObject({ kind: "closed", committed: "no" });
    await store.close({ drainMs: 20 });
    await stuck;
  });

  it("can be closed twice, and after transactions that conflict", async () => {
    const store = await open();
    const key = testSpace().key("a");
    const run = overtaken(
      store,
      async (tx) => tx.set(key, text(`${textOf(await tx.get(key))}`)),
      async (tx) => tx.set(key, text("other")),
    );
    await expect(run).rejects.toMatchObject({ kind: "conflict" });
    await Promise.all([store.close({ drainMs: 1_000 }), store.close({ drainMs: 1_000 })]);
  });
}
