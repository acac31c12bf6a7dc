import { expect, it } from "vitest";
import type { Bench } from "./bench.ts";
import { look, testSpace, text, textOf, write } from "./space.ts";

/** So long that a test which needs the poll fails by its own time limit. */
const NEVER_MS = 600_000;
const open = () => new AbortController().signal;

export function changeCases({ store, open: openStore }: Bench): void {
  it("resolves at once when the value already differs", async () => {
    const key = testSpace().key("a");
    await write(store(), async (tx) => tx.set(key, text("x")));
    await store().changed(key, undefined, { signal: open(), pollMs: NEVER_MS });
    await store().changed(key, text("old"), { signal: open(), pollMs: NEVER_MS });
  });

  it.each(["set", "clear", "clearRange", "addI64"])("is woken by %s", async (kind) => {
    const space = testSpace();
    const key = space.key("a");
    await write(store(), async (tx) => tx.set(key, text("8 bytes.")));
    const changed = store().changed(key, text("8 bytes."), { signal: open(), pollMs: NEVER_MS });
    await write(store(), async (tx) => {
      if (kind === "set") tx.set(key, text("new"));
      else if (kind === "clear") tx.clear(key);
      else if (kind === "clearRange") tx.clearRange(space.range());
      else tx.addI64(key, 1n);
    });
    await changed;
  });

  it("follows a key that changes continually", async () => {
    const key = testSpace().key("n");
    const last = 30;
    const writer = async () => {
      for (let n = 1; n <= last; n++) await write(store(), async (tx) => tx.set(key, text(String(n))));
    };
    const reader = async () => {
      for (let seen: Uint8Array | undefined; textOf(seen) !== String(last); ) {
        await store().changed(key, seen, { signal: open(), pollMs: NEVER_MS });
        seen = await look(store(), (one) => one.get(key));
      }
    };
    await Promise.all([writer(), reader()]);
  });

  it("resolves after pollMs without an event", async () => {
    const key = testSpace().key("a");
    await store().changed(key, undefined, { signal: open(), pollMs: 20 });
  });

  it("resolves when aborted, before and during the wait", async () => {
    const key = testSpace().key("a");
    await store().changed(key, undefined, { signal: AbortSignal.abort(), pollMs: NEVER_MS });
    const controller = new AbortController();
    const changed = store().changed(key, undefined, { signal: controller.signal, pollMs: NEVER_MS });
    controller.abort();
    await changed;
  });

  it("ends when the store closes", async () => {
    const own = await openStore();
    const changed = own.changed(testSpace().key("a"), undefined, { signal: open(), pollMs: NEVER_MS });
    await own.close({ drainMs: 1_000 });
    await changed;
  });

  it("reports its health with a measured commit", async () => {
    const health = await store().health({ timeoutMs: 10_000 });
    expect(health).toMatchObject({ ok: true, commitProbeMs: expect.any(Number) });
  });
}
