/**
 * The open results of the client library, and the end of a process that does not wait for them.
 *
 * The library's network thread passes each result to the main thread through a queue of {@link QUEUE_LENGTH},
 * and blocks while the queue is full. An exiting process takes no more results. So the package's own exit,
 * which waits for the network thread, hangs for ever when more results are open than the queue holds. An exit
 * without waiting can crash, because the thread still runs during the library's teardown.
 */
const QUEUE_LENGTH = 16;
/** Enough time for the thread to fill the queue and block. */
const BLOCKED_MS = 50;

const open = new Map<Promise<unknown>, () => void>();

/**
 * Registers the result until it has arrived. `cancel` makes the library give it up, and so it must hold the
 * transaction: the addon cancels a transaction when JavaScript collects it, even while its commit is in flight.
 */
export function openResult<T>(result: Promise<T>, cancel: () => void): Promise<T> {
  open.set(result, cancel);
  const settled = () => void open.delete(result);
  result.then(settled, settled);
  return result;
}

/** At exit, ends the network thread with `stop`, or makes it block for the rest of the process. */
export function endNetworkThread(stop: () => void): void {
  if (open.size <= QUEUE_LENGTH) {
    stop();
    return;
  }
  for (const cancel of open.values()) {
    try {
      cancel();
    } catch {
      // One of the others is enough.
    }
  }
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, BLOCKED_MS);
}
