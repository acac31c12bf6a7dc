/** Begins a transaction of the LMDB store in the folder of the first argument and never ends it, like a process that hangs in a commit. */
import { open } from "lmdb";

const [, , path = ""] = process.argv;
const store = open({ path, noSubdir: false });
store.transactionSync(() => {
  process.stdout.write("locked\n");
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
});
