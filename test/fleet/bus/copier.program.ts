// A process that sends copies of commands: each line of its input is a batch, each line of its output an answer, or that the batch is
// done. It ends with its input.

import { createInterface } from "node:readline";
import { type CopyBatch, connectNats, sendCopies } from "../../harness/processes/copies.ts";

const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

const nats = await connectNats(process.argv[2] ?? "");
for await (const line of createInterface({ input: process.stdin })) {
  await sendCopies(nats, JSON.parse(line) as CopyBatch, (place, answer) => say({ place, answer }));
  say({ done: true });
}
await nats.close();
