// One of several processes on one shared directory, started as `node sharer.ts <directory> <rounds>`. It
// reads a counter and writes it plus one, `rounds` times in each of four loops, and prints each value whose
// commit was reported. It answers each line on its standard input with the current counter.
import { createInterface } from "node:readline";
import { openLmdb } from "../../../shared/store/drivers/lmdb.ts";

const [path, rounds] = [process.argv[2]!, Number(process.argv[3])];
const store = await openLmdb({ path, sharing: "shared" });
process.stdout.write("open\n");

const KEY = Buffer.from("counter");
const read = { label: "sharer", deadlineMs: 60_000 };

createInterface({ input: process.stdin }).on("line", async () => {
  const value = await store.read(read, (reader) => reader.get(KEY));
  process.stdout.write(`= ${Buffer.from(value ?? "0").toString()}\n`);
});

async function add(): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    const { value } = await store.transact({ ...read, onUnknown: "safe" }, async (tx) => {
      const next = Number(Buffer.from((await tx.get(KEY)) ?? "0").toString()) + 1;
      tx.set(KEY, Buffer.from(String(next)));
      tx.set(Buffer.from(`by/${next}`), Buffer.from(String(process.pid)));
      return next;
    });
    process.stdout.write(`${value}\n`);
  }
}

await Promise.all(Array.from({ length: 4 }, add));
process.stdout.write("done\n");
process.stdin.once("end", () => void store.close({ drainMs: 5_000 }));
