/**
 * A thread that answers calls, one by one and in their order; its program is an `answerCalls`. A further call may be made before the last answer.
 * It starts with the first call. If it dies, the calls without an answer fail, and the next call starts it again.
 */
import { Worker } from "node:worker_threads";
import { FleetError } from "../../protocol/errors.ts";
import { createDeferred, type Deferred } from "../deferred.ts";
import type { CallAnswer } from "./call-answers.ts";

interface RunningThread {
  readonly worker: Worker;
  /** The calls without an answer, in their order. */
  readonly waiting: Deferred<unknown>[];
}

export class CallThread<Call> {
  readonly #program: URL;
  readonly #name: string;
  readonly #data: unknown;
  #running: RunningThread | undefined;

  /** `data`: the `workerData` of the program. */
  constructor(program: URL, { name, data }: { readonly name: string; readonly data?: unknown }) {
    this.#program = program;
    this.#name = name;
    this.#data = data;
  }

  /** For a thread that shall have loaded its program before the first call. */
  start(): void {
    this.#running ??= this.#started();
  }

  /** `movedIn` names the buffers that the thread takes over. A FleetError arrives as one. */
  async call(call: Call, movedIn: readonly ArrayBuffer[] = []): Promise<unknown> {
    this.#running ??= this.#started();
    const { worker, waiting } = this.#running;
    // A call that cannot be sent has no answer, so it must not wait among those that have one.
    worker.postMessage(call, movedIn);
    const answer = createDeferred<unknown>();
    waiting.push(answer);
    return answer.promise;
  }

  /** Fails the calls without an answer. */
  async close(): Promise<void> {
    await this.#running?.worker.terminate();
  }

  #started(): RunningThread {
    const worker = new Worker(this.#program, { name: this.#name, workerData: this.#data });
    const running: RunningThread = { worker, waiting: [] };
    worker.on("message", (answer: CallAnswer) => {
      const waiting = running.waiting.shift();
      if ("result" in answer) waiting?.resolve(answer.result);
      else waiting?.reject("refusal" in answer ? FleetError.fromBody(answer.refusal) : answer.error);
    });
    const end = (cause?: unknown) => {
      if (this.#running === running) this.#running = undefined;
      for (const waiting of running.waiting.splice(0)) waiting.reject(this.#ended(cause));
    };
    worker.on("error", end);
    worker.on("exit", () => end());
    worker.unref();
    return running;
  }

  #ended(cause: unknown): FleetError {
    const details = { thread: this.#name };
    return new FleetError("UNAVAILABLE", "the thread ended before its answer", { details, cause });
  }
}
