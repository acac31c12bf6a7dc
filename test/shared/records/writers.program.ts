// One of several processes that write to the same task, started as `node writers.program.ts <store url>
// <name> <writers> <rounds>`. It prints "ready", starts at the first line of its input, and prints its
// recorded calls as one line of JSON.

import { once } from "node:events";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import { openStore } from "../../../shared/store/open.ts";
import { contend } from "./contention.ts";

const [url = "", name = "", writers = "", rounds = ""] = process.argv.slice(2);
const store = await openStore(url);
const format = await openFormat(store);
const repository = new CheckpointRepository({ store, format, finder: name, now: Date.now });
process.stdout.write("ready\n");
const [text] = (await once(process.stdin, "data")) as [Buffer];
const { task, shared } = JSON.parse(text.toString()) as { task: string; shared: string };
const calls = await contend([repository], { name, task, shared, writers: +writers, rounds: +rounds });
process.stdout.write(`${JSON.stringify(calls)}\n`);
process.stdin.destroy();
await store.close({ drainMs: 5_000 });
