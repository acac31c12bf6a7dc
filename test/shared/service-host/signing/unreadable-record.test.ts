import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { expect, test, vi } from "vitest";
import { signingKeyFrom } from "../../../../shared/integrity/dsse.ts";
import { requestRotation, serviceActor } from "../../../../shared/records/signing/key-registry.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openSigning } from "../../../../shared/service-host/signing/signing.ts";
import { type Store, StoreError } from "../../../../shared/store/store.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";
import { openTestRecords } from "../../../harness/records/records.ts";
import { WRITING } from "../../../harness/records/signed.ts";

test("a service that cannot read the record of its key pauses before it looks again, and then follows it", async () => {
  const home = mkdtempSync(join(tmpdir(), "fleet-signing-"));
  const records = await openTestRecords("memory");
  const clock = manualClock();
  let isReadable = true;
  let refused = 0;
  const store: Store = Object.assign(Object.create(records.store) as Store, {
    transact: ((options, body) => records.store.transact(options, body)) satisfies Store["transact"],
    changed: ((key, seen, options) => records.store.changed(key, seen, options)) satisfies Store["changed"],
    read: (async (options, body) => {
      if (isReadable) return records.store.read(options, body);
      refused += 1;
      await turn();
      throw new StoreError("unavailable", "the store is unavailable on purpose");
    }) satisfies Store["read"],
  });
  const context = { log: testLog, metrics: createMetrics({ ofProcess: false }), clock };
  const signing = await openSigning(context, store, { service: "test", home });
  try {
    const keyId = () => signingKeyFrom(readFileSync(join(home, "signing-key.pem"), "utf8")).id;
    const first = keyId();
    isReadable = false;
    const by = { actor: serviceActor("test"), nowMs: clock.now() };
    await signing.store.transact(WRITING, (tx) => requestRotation(tx, first, by));
    await clock.sleeping();
    for (let n = 0; n < 20; n += 1) await turn();
    expect(refused).toBe(1);
    isReadable = true;
    await clock.advance(1_000);
    await vi.waitFor(() => expect(keyId()).not.toBe(first), { timeout: 30_000 });
  } finally {
    await signing.stop();
    await records.close();
    rmSync(home, { recursive: true });
  }
});
