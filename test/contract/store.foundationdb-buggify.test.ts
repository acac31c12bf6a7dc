// The contract again while the client library injects its own rare failures: unknown commit results, timeouts with the
// commit still under way, old snapshots. A file of its own, because each runs in its own process and the library takes
// these settings once per process, before the first database is opened.
import { afterAll, test } from "vitest";
import { openFoundationdb } from "../../shared/store/drivers/foundationdb.ts";
import { loadClient } from "../../shared/store/foundationdb/client.ts";
import { missingFoundationdb, startFoundationdb } from "../harness/foundationdb.ts";
import { storeContract } from "./store.ts";

const missing = await missingFoundationdb();
if (missing === undefined) {
  const client = await loadClient();
  client.configNetwork({
    client_buggify_enable: true,
    client_buggify_section_activated_probability: 100,
    client_buggify_section_fired_probability: 10,
  });
  const server = await startFoundationdb();
  afterAll(() => server.stop());
  storeContract(
    "foundationdb with client buggify",
    () => openFoundationdb({ clusterFile: server.clusterFile }),
    {},
  );
} else {
  test.skip(`foundationdb with client buggify: ${missing}`);
}
