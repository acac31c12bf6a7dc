// The whole contract while the client library injects its own rare failures at every commit and many a read: lost commit results,
// commits that time out and still land up to five seconds later, conflicts, old snapshots. A case that is itself hit is tried
// again, since the contract lets a transaction fail; what no case survives is a hang, a failure that nobody handles, or a
// promise that holds only in good weather. A file of its own, because the library takes these settings once per process.
import { afterAll, describe, test } from "vitest";
import { openFoundationdb } from "../../shared/store/drivers/foundationdb.ts";
import { missingFoundationdb, startFoundationdb } from "../harness/stores/foundationdb.ts";
import { injectFailures } from "../harness/stores/foundationdb-buggify.ts";
import { storeContract } from "./store.ts";

/** Of each place that can fail; a commit passes three. */
const PERCENT = 2;
const TRIES = 10;

const missing = await missingFoundationdb();
if (missing === undefined) {
  await injectFailures(PERCENT);
  const server = await startFoundationdb();
  afterAll(() => server.stop());
  const { clusterFile } = server;
  describe("with client buggify", { retry: TRIES }, () =>
    storeContract("foundationdb", () => openFoundationdb({ clusterFile }), {
      openWithClock: (clock) => openFoundationdb({ clusterFile, clock }),
    }),
  );
} else {
  test.skip(`foundationdb with client buggify: ${missing}`);
}
