/** Anchors the logs of a store, and prints a line between each anchor and its record, which it then never makes. */
import { startAnchorer } from "../../../../services/watchdog/anchors/anchorer.ts";
import { createLeaderLeases } from "../../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { openStore } from "../../../../shared/store/open.ts";
import type { Store } from "../../../../shared/store/store.ts";
import { testLog } from "../../../harness/processes/nats.ts";

const [url, folder, authority] = process.argv.slice(2) as [string, string, string];
const opened = await openStore(url);
const store: Store = Object.assign(Object.create(opened) as Store, {
  read: ((options, body) => opened.read(options, body)) satisfies Store["read"],
  transact: ((options, body) => {
    if (options.label !== "record_anchor") return opened.transact(options, body);
    process.stdout.write("anchored\n");
    return new Promise<never>(() => {});
  }) satisfies Store["transact"],
});
const leases = createLeaderLeases(store, "killed", () => Date.now());
const context = { store, leases, clock: systemClock, log: testLog, metrics: createMetrics() };
startAnchorer(context, {
  folder,
  bucket: null,
  timestamps: { url: authority, authorities: [] },
  everyMs: 3_600_000,
});
