// Commits to a store without a pause until its input ends, started as `node committer.program.ts <store url>`. Commit n sets each row of `ROUND_KEYS`
// to n and adds the row n of a log, so a store has the first n commits and no other one only if all rows agree. It prints "ready" after the first.
import { openStore } from "../../../../shared/store/open.ts";
import { logKey, ROUND_KEYS, roundValue } from "./committed-rows.ts";

const [url = ""] = process.argv.slice(2);
const store = await openStore(url);
let isEnded = false;
process.stdin.once("close", () => {
  isEnded = true;
});
process.stdin.resume();
for (let n = 1; !isEnded; n += 1) {
  await store.transact({ label: "test", deadlineMs: 30_000, onUnknown: "safe" }, async (tx) => {
    for (const key of ROUND_KEYS) tx.set(key, roundValue(n));
    tx.set(logKey(n), roundValue(n));
  });
  if (n === 1) process.stdout.write("ready\n");
}
await store.close({ drainMs: 5_000 });
