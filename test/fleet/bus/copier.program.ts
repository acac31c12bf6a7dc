// A process that sends copies of commands. Each line of its input is a batch; each line of its output is an answer or the end of the
// batch. The process ends with its input.

import { createInterface } from "node:readline";
import { type CopyBatch, connectNats, sendCopies } from "../../harness/processes/copies.ts";

const print = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

const nats = await connectNats(process.argv[2] ?? "", process.argv[3] ?? "");
for await (const line of createInterface({ input: process.stdin })) {
  await sendCopies(nats, JSON.parse(line) as CopyBatch, (index, answer) => print({ index, answer }));
  print({ done: true });
}
await nats.close();
