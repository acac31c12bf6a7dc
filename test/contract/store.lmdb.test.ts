import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { openLmdb } from "../../shared/store/drivers/lmdb.ts";
import { storeContract } from "./store.ts";

const root = await mkdtemp(join(tmpdir(), "fleet-lmdb-"));
afterAll(() => rm(root, { recursive: true, force: true }));
const directory = () => mkdtemp(join(root, "store-"));

storeContract("lmdb", async () => openLmdb({ path: await directory() }), {
  openWithClock: async (clock) => openLmdb({ path: await directory(), clock }),
});
