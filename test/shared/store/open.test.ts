import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openStore } from "../../../shared/store/open.ts";

it("opens the store of the URL", async () => {
  const root = await mkdtemp(join(tmpdir(), "fleet-open-"));
  for (const [url, name] of [
    ["memory:", "memory"],
    [`lmdb:${join(root, "made/when.missing")}`, "lmdb"],
  ] as const) {
    const store = await openStore(url);
    expect(store.name).toBe(name);
    expect((await store.health({ timeoutMs: 5_000 })).ok).toBe(true);
    await store.close({ drainMs: 1_000 });
  }
  await rm(root, { recursive: true });
});

it.each(["", "lmdb", "lmdb:", "memory:x", "redis://host", "./data"])(
  "refuses %j and lists the accepted forms",
  async (url) => {
    await expect(openStore(url)).rejects.toMatchObject({
      kind: "invalid",
      details: { url, accepted: expect.arrayContaining(["memory:"]) },
    });
  },
);
