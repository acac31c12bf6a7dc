// Worker thread: holds the lock of a store's folder until `state[0]` is 2. `state[0]` is 1 while it is held.
import { workerData } from "node:worker_threads";
import { OpeningLock } from "../../../../shared/store/lmdb/opening-lock.ts";

const { folder, how, state } = workerData as {
  folder: string;
  how: "open" | "commit";
  state: Int32Array<SharedArrayBuffer>;
};

const lock = new OpeningLock(folder);
lock[how](() => {
  Atomics.store(state, 0, 1);
  Atomics.notify(state, 0);
  Atomics.wait(state, 0, 1);
});
lock.close();
