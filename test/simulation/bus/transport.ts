/** The socket of the client library, replaced by a connection to the simulated server. */
import { type ConnectionOptions, errors, type Transport } from "@nats-io/transport-node";
import { type Runner, runnerOfCaller } from "./time.ts";

/** The server's end of a connection that opens. */
export interface Dialled {
  send(frame: Uint8Array): void;
  /** The client has closed its end. */
  closed(): void;
}

export interface ClientEnd {
  readonly run: Runner;
  arrived(frame: Uint8Array): void;
  /** The server has closed its end. */
  ended(): void;
}

/** Never settles while the way to the server is blocked. Rejects if nothing listens there. */
export type Dial = (end: ClientEnd) => Promise<Dialled>;

export interface SimulatedOptions extends ConnectionOptions {
  readonly dial: Dial;
}

export class SimulatedTransport implements Transport {
  readonly lang = "nats.js";
  readonly version = "simulated";
  closeError?: Error;
  readonly #run = runnerOfCaller();
  readonly #closed = Promise.withResolvers<void>();
  #signal = Promise.withResolvers<void>();
  #frames: Uint8Array[] = [];
  #server: Dialled | undefined;
  #isDone = false;

  get isClosed(): boolean {
    return this.#isDone;
  }

  async connect(_: unknown, options: ConnectionOptions): Promise<void> {
    const server = await (options as SimulatedOptions).dial({
      run: this.#run,
      arrived: (frame) => {
        this.#frames.push(frame);
        this.#signal.resolve();
      },
      ended: () => this.#end(),
    });
    // The library has given up meanwhile.
    if (this.#isDone) {
      server.closed();
      throw new errors.ConnectionError("the connection was discarded");
    }
    this.#server = server;
  }

  async *[Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    for (;;) {
      // What has arrived before the end is read.
      if (this.#frames.length === 0) {
        if (this.#isDone) return;
        await this.#signal.promise;
      }
      const frames = this.#frames;
      this.#frames = [];
      this.#signal = Promise.withResolvers();
      yield* frames;
    }
  }

  isEncrypted(): boolean {
    return false;
  }

  send(frame: Uint8Array): void {
    if (!this.#isDone) this.#server?.send(frame);
  }

  async close(error?: Error): Promise<void> {
    // As in the library: a connection that has never opened has no end.
    if (this.#server === undefined || this.#isDone) return;
    if (error !== undefined) this.closeError = error;
    this.#server.closed();
    this.#end();
  }

  disconnect(): void {
    void this.close();
  }

  closed(): Promise<void> {
    return this.#closed.promise;
  }

  discard(): void {
    if (!this.#isDone) this.#server?.closed();
    this.#isDone = true;
    this.#signal.resolve();
  }

  #end(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    this.#signal.resolve();
    this.#closed.resolve();
  }
}
