// The whole contract while the client library injects its own rare failures into every commit and many reads:
// lost commit results, commits that time out and still land up to five seconds later, conflicts, old
// snapshots. A case that a failure hits is repeated, because the contract allows transactions to fail. No
// case survives a hang, an unhandled failure, or a guarantee that holds only without failures. The cases need
// their own file because the library accepts these settings once per process.
import { afterAll, describe, test } from "vitest";
import { openFoundationdb } from "../../shared/store/drivers/foundationdb.ts";
import { missingFoundationdb, startFoundationdb } from "../harness/stores/foundationdb.ts";
import { injectFailures } from "../harness/stores/foundationdb-buggify.ts";
import { storeContract } from "./store.ts";

/** The chance of a failure at each place; a commit passes three. */
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
