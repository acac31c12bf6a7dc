// The encrypted store over the engines that run in the process. Counters stay clear there, because the engine adds to them.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { encryptedStore } from "../../shared/records/encryption/encrypted-store.ts";
import { KeyRing } from "../../shared/records/encryption/keys/key-ring.ts";
import { keyPlaceOf } from "../../shared/records/encryption/keys/place.ts";
import type { Layout } from "../../shared/records/encryption/layout.ts";
import { openLmdb } from "../../shared/store/drivers/lmdb.ts";
import { openMemory } from "../../shared/store/drivers/memory.ts";
import type { Store } from "../../shared/store/store.ts";
import { rootKey } from "../harness/encryption/root-key.ts";
import { isCounter, SPACE_BYTES, testSpace, text, write } from "./store/space.ts";
import { storeContract } from "./store.ts";

const folder = await mkdtemp(join(tmpdir(), "fleet-encrypted-"));
afterAll(() => rm(folder, { recursive: true, force: true }));
const root = rootKey();
const path = () => mkdtemp(join(folder, "store-"));

/** The address is that of the case: the contract stamps keys in their middle. */
const layoutOf =
  (task: string | null): Layout =>
  (key) => {
    const isOfCase = Buffer.from(key).toString("latin1").startsWith("contract/");
    if (!isOfCase || isCounter(key)) return null;
    return { place: keyPlaceOf("contract", task), address: key.subarray(0, SPACE_BYTES) };
  };

/** The key of the place is there: the cases count the conflicts of their own keys. */
async function encrypted(store: Store, task: string | null): Promise<Store> {
  const opened = encryptedStore(store, new KeyRing(store, [root]), { layout: layoutOf(task) });
  await write(opened, async (tx) => tx.set(testSpace().key("a"), text("first")));
  return opened;
}

storeContract("memory, encrypted with the key of a task", async () => encrypted(await openMemory(), "t"), {
  openWithClock: async (clock) => encrypted(await openMemory({ clock }), "t"),
});
storeContract("memory, encrypted with the key of a tenant", async () => encrypted(await openMemory(), null), {
  openWithClock: async (clock) => encrypted(await openMemory({ clock }), null),
});
storeContract("lmdb, encrypted", async () => encrypted(await openLmdb({ path: await path() }), "t"), {
  openWithClock: async (clock) => {
    const at = await path();
    // A clock that stands still holds the commits of the first opening up.
    await (await encrypted(await openLmdb({ path: at }), "t")).close({ drainMs: 1_000 });
    const store = await openLmdb({ path: at, clock });
    return encryptedStore(store, new KeyRing(store, [root]), { layout: layoutOf("t") });
  },
});
