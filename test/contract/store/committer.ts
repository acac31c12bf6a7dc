// A process that commits until it is killed, started as `node committer.ts <directory>`. It prints `open`,
// then the number of each transaction whose commit was reported. With a third argument it ends itself in the
// middle of its work, with `exit` or `throw`.

import { setTimeout as pause } from "node:timers/promises";
import { openLmdb } from "../../../shared/store/drivers/lmdb.ts";

// Many transactions with many parts where it ends itself: then batches are being applied most of the time.
const [loops, parts] = process.argv[3] === undefined ? [8, 0] : [100, 500];
const store = await openLmdb({ path: process.argv[2]! });
process.stdout.write("open\n");
let next = 0;

async function commitForEver(): Promise<never> {
  for (;;) {
    const n = next++;
    const number = String(n).padStart(8, "0");
    await store.transact({ label: "committer", deadlineMs: 60_000, onUnknown: "safe" }, async (tx) => {
      tx.set(Buffer.from(`a/${number}`), Buffer.alloc(500, n));
      tx.set(Buffer.from(`b/${number}`), Buffer.alloc(5_000, n));
      tx.addI64(Buffer.from("count"), 1n);
      for (let part = 0; part < parts; part++) tx.set(Buffer.from(`c/${number}/${part}`), Buffer.of(n));
    });
    process.stdout.write(`${n}\n`);
  }
}

const ENOUGH = 300;

async function endInTheMiddle(how: string): Promise<void> {
  while (next < ENOUGH) await pause(1);
  await pause(Math.random() * 200); // at any point of a batch
  if (how === "exit") process.exit(7);
  throw new Error("thrown on purpose");
}

if (process.argv[3] !== undefined) void endInTheMiddle(process.argv[3]);
await Promise.all(Array.from({ length: loops }, commitForEver));
