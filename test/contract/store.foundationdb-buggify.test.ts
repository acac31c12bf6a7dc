// The command pattern while the client library injects its own rare failures: lost commit results, commits that time out
// and still land up to five seconds later, conflicts, old snapshots. Only bodies that may run twice are promised to end
// as once, so this is not the whole contract. A file of its own, because each runs in its own process and the library
// takes these settings once per process, before the first database is opened.
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openFoundationdb } from "../../shared/store/drivers/foundationdb.ts";
import { loadClient } from "../../shared/store/foundationdb/client.ts";
import type { Store, Tx } from "../../shared/store/store.ts";
import { type FoundationdbServer, missingFoundationdb, startFoundationdb } from "../harness/foundationdb.ts";
import { i64Of, testSpace, text } from "./store/space.ts";

const COMMANDS = 100;
const ids = Array.from({ length: COMMANDS }, (_, id) => id);
/** A commit whose result the library withheld lands within this time, or never. */
const LANDED_MS = 6_000;
const DEADLINE_MS = 60_000;
const missing = await missingFoundationdb();

describe.skipIf(missing !== undefined)("foundationdb with client buggify", () => {
  let server: FoundationdbServer;
  let store: Store;

  beforeAll(async () => {
    const client = await loadClient();
    client.configNetwork({
      client_buggify_enable: true,
      client_buggify_section_activated_probability: 100,
      client_buggify_section_fired_probability: 10,
    });
    server = await startFoundationdb();
    store = await openFoundationdb({ clusterFile: server.clusterFile });
  });

  afterAll(async () => {
    await store?.close({ drainMs: 1_000 });
    await server?.stop();
  });

  it("does get failures injected: writes that nothing can conflict with need more than one attempt each", async () => {
    const space = testSpace();
    const options = { label: "blind", deadlineMs: DEADLINE_MS, onUnknown: "safe" } as const;
    const write = (id: number) =>
      store.transact(options, async (tx) => tx.set(space.key(String(id)), text("x")));
    const results = await Promise.all(ids.map(write));
    expect(results.reduce((sum, { attempts }) => sum + attempts, 0)).toBeGreaterThan(COMMANDS);
  }, 120_000);

  it("ends each command as once, delivered twice at once, also when late commits have landed", async () => {
    const space = testSpace();
    const apply = (id: number) =>
      store.transact({ label: "command", deadlineMs: DEADLINE_MS, onUnknown: "safe" }, async (tx: Tx) => {
        const record = space.key(`idem/${id}`);
        if ((await tx.get(record)) !== undefined) return;
        tx.set(record, text("done"));
        tx.addI64(space.key("count"), 1n);
        tx.setStampedKey(space.key("feed/"), text(String(id)), text(String(id)));
      });
    const effects = () =>
      store.read({ label: "effects", deadlineMs: DEADLINE_MS }, async (reader) => {
        const feed = await reader.getRange(space.range("feed/", "feed0"), { limit: 1_000 });
        return { count: i64Of(await reader.get(space.key("count"))), entries: feed.rows.length };
      });

    await Promise.all([...ids, ...ids].map(apply));
    const once = { count: BigInt(COMMANDS), entries: COMMANDS };
    expect(await effects()).toEqual(once);
    await pause(LANDED_MS);
    expect(await effects()).toEqual(once);
  }, 120_000);
});
