/**
 * The results that the client library owes us, and how a process ends that does not wait for them.
 *
 * The library's network thread hands each result to the main thread over a queue of {@link QUEUE_LENGTH}, and blocks while
 * the queue is full. A process that exits takes nothing out any more. So the package's own way, to wait at exit for the
 * network thread, hangs for ever when more results are on their way than the queue holds; and to go without waiting can end
 * in a crash, because the thread works on while the library is torn down under it.
 */
const QUEUE_LENGTH = 16;
/** More than enough for the thread to meet the full queue. */
const BLOCKED_MS = 50;

const owed = new Map<Promise<unknown>, () => void>();

/** Notes the result until it is there. `cancel` makes the library give it up. */
export function owedResult<T>(result: Promise<T>, cancel: () => void): Promise<T> {
  owed.set(result, cancel);
  const settled = () => void owed.delete(result);
  result.then(settled, settled);
  return result;
}

/** At exit: ends the network thread with `stop`, or makes it block, which holds it still for the rest of the process. */
export function endNetworkThread(stop: () => void): void {
  if (owed.size <= QUEUE_LENGTH) {
    stop();
    return;
  }
  for (const cancel of owed.values()) {
    try {
      cancel();
    } catch {
      // Another one will do.
    }
  }
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCKED_MS);
}
