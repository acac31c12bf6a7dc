import { afterAll, test } from "vitest";
import { openFoundationdb } from "../../shared/store/drivers/foundationdb.ts";
import { missingFoundationdb, startFoundationdb } from "../harness/stores/foundationdb.ts";
import { storeContract } from "./store.ts";

const missing = await missingFoundationdb();
if (missing === undefined) {
  const server = await startFoundationdb();
  afterAll(() => server.stop());
  const { clusterFile } = server;
  storeContract("foundationdb", () => openFoundationdb({ clusterFile }), {
    openWithClock: (clock) => openFoundationdb({ clusterFile, clock }),
  });
} else {
  console.log(`FoundationDB tests skipped: ${missing}`);
  test.skip(`foundationdb: ${missing}`);
}
