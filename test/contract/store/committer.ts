// A process that commits until it is killed. It prints the number of each transaction whose commit was reported to it;
// started as `node committer.ts <directory>`, first line `open`.

import { openLmdb } from "../../../shared/store/drivers/lmdb.ts";

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
    });
    process.stdout.write(`${n}\n`);
  }
}

await Promise.all(Array.from({ length: 8 }, commitForEver));
