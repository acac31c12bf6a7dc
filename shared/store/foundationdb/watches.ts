/**
 * Waits for the change of a key with a watch of the engine, and with a poll besides, because a watch may be
 * refused, lost or never answered. Failures are not reported: the caller reads again after every wake-up, and
 * gets them there.
 *
 * A watch in the engine can outlive the call that made it. It is cancelled when the call ends, and `close`
 * waits until all have ended: an open watch keeps the process alive and can crash it at its exit.
 */
import { systemClock } from "../../runtime/clock.ts";
import { checkKey } from "../limits.ts";
import { sameBytes } from "../same-bytes.ts";
import type { Bytes } from "../store.ts";
import { bufferOf, type Connection, newTransaction } from "./client.ts";
import { openResult } from "./results.ts";

export class KeyWatches {
  readonly #connection: Connection;
  readonly #closing = new AbortController();
  readonly #open = new Set<Promise<void>>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /**
   * Resolves when the value of `key` may differ from `lastSeen`, after `pollMs`, on abort, or when closing.
   */
  async changed(
    key: Bytes,
    lastSeen: Bytes | undefined,
    options: { signal: AbortSignal; pollMs: number },
  ): Promise<void> {
    checkKey(key);
    const over = new AbortController();
    const until = AbortSignal.any([options.signal, this.#closing.signal, over.signal]);
    if (until.aborted) return;
    const poll = systemClock.sleep(options.pollMs, until);
    const watching = this.#watch(bufferOf(key), lastSeen, options.pollMs, until).catch(() => poll);
    this.#open.add(watching);
    watching.finally(() => this.#open.delete(watching));
    await Promise.race([poll, watching]);
    over.abort();
  }

  /** Ends every {@link changed} and waits until the engine has released their watches. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.all(this.#open);
  }

  async #watch(key: Buffer, lastSeen: Bytes | undefined, pollMs: number, until: AbortSignal): Promise<void> {
    const native = newTransaction(this.#connection, { timeoutMs: pollMs, priority: "default" });
    const cancelRead = () => native.rawCancel();
    until.addEventListener("abort", cancelRead, { once: true });
    const value = await openResult(native.get(key), cancelRead);
    until.removeEventListener("abort", cancelRead);
    if (until.aborted || !sameBytes(value, lastSeen)) return;

    const watch = native.watch(key);
    const cancelWatch = () => watch.cancel();
    until.addEventListener("abort", cancelWatch, { once: true });
    try {
      openResult(watch.promise, cancelWatch);
      // The engine begins to watch here, from the version that was read.
      await openResult(native.rawCommit(), cancelRead);
      await watch.promise;
    } finally {
      until.removeEventListener("abort", cancelWatch);
      watch.cancel();
      await watch.promise.catch(() => {});
    }
  }
}
