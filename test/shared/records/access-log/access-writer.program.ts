// One of several processes that write to one access log, started as `node access-writer.program.ts <store url> <session> <batches>`. It prints
// "ready", begins at the first line of its input, and prints the number of each batch that is durable.

import { once } from "node:events";
import { openFormat } from "../../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../../shared/records/repository.ts";
import { openStore } from "../../../../shared/store/open.ts";

const [url = "", session = "", batches = ""] = process.argv.slice(2);
const store = await openStore(url);
const format = await openFormat(store);
const { accessLogs } = new CheckpointRepository({ store, format, finder: session, now: Date.now });
process.stdout.write("ready\n");
await once(process.stdin, "data");
for (let n = 1; n <= Number(batches); n += 1) {
  const at = new Date().toISOString();
  const entry = { at, actor: { id: session, type: "agent" }, op: "query.get", outcome: "ok" as const };
  await accessLogs.append("default", { session, n, state: "open", entries: [entry], lost: 0 });
  process.stdout.write(`${n}\n`);
}
process.stdin.destroy();
await store.close({ drainMs: 5_000 });
