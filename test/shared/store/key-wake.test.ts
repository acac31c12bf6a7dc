import { expect, test } from "vitest";
import { createWake } from "../../../shared/runtime/clock.ts";
import { openMemory } from "../../../shared/store/drivers/memory.ts";
import { wakeOnChange } from "../../../shared/store/key-wake.ts";
import type { Store } from "../../../shared/store/store.ts";
import { manualClock } from "../../harness/clock.ts";

const key = Buffer.from("key");

test("a loop is woken at the start and by each change, and not by the renewal of a watch", async () => {
  const store = await openMemory();
  const clock = manualClock();
  const stopping = new AbortController();
  const wake = createWake();
  let woken = 0;
  const listen = () =>
    wake.once(() => {
      woken += 1;
      listen();
    });
  listen();
  // The watch ends without a change, again and again.
  let renewals = 0;
  const renewing: Pick<Store, "read" | "changed"> = {
    read: (options, body) => store.read(options, body),
    changed: (watched, seen, { signal }) => {
      renewals += 1;
      return store.changed(watched, seen, { signal, pollMs: 1 });
    },
  };
  const waking = wakeOnChange({
    store: renewing,
    key,
    wake,
    clock,
    signal: stopping.signal,
    restMs: () => 0,
  });
  const set = (value: string) =>
    store.transact({ label: "set", deadlineMs: 5_000, onUnknown: "safe" }, async (tx) =>
      tx.set(key, Buffer.from(value)),
    );
  const until = (value: () => number) =>
    expect.poll(async () => {
      await clock.advance(1);
      return value();
    });
  await until(() => woken).toBe(1);
  await set("a");
  await until(() => woken).toBe(2);
  await set("b");
  await until(() => woken).toBe(3);
  await until(() => renewals).toBeGreaterThan(renewals + 5);
  expect(woken).toBe(3);
  stopping.abort();
  await clock.advance(1);
  await waking;
  await store.close({ drainMs: 1_000 });
});
