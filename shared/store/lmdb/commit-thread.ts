/**
 * The interface of the serving thread to its committing thread: passes one batch at a time and turns failures
 * into StoreErrors.
 *
 * When the committing thread dies during a batch, it is unknown whether the batch was committed. From then on
 * nothing is committed: the store is `fatal` until it is opened again.
 */
import { Worker } from "node:worker_threads";
import { createDeferred, type Deferred } from "../../runtime/deferred.ts";
import { programUrl } from "../../runtime/process/installation.ts";
import type { BatchResult, Slab } from "../optimistic/commit.ts";
import { StoreError } from "../store.ts";
import type { EnvironmentOptions } from "./environment.ts";
import { processGate } from "./gate.ts";
import type { WorkerAnswer, WorkerRequest } from "./worker.ts";

const CLOSE_MS = 5_000;

export class CommitThread {
  readonly #worker: Worker;
  readonly #exited: Promise<unknown>;
  #waiting: Deferred<WorkerAnswer> | undefined;
  #failure: StoreError | undefined;

  private constructor(worker: Worker) {
    this.#worker = worker;
    this.#exited = new Promise((resolve) => worker.once("exit", resolve));
    worker.on("message", (answer: WorkerAnswer) => {
      const waiting = this.#waiting;
      this.#waiting = undefined;
      waiting?.resolve(answer);
    });
    worker.on("error", (cause) => this.#fail(cause));
    worker.on("exit", () => this.#fail(undefined));
  }

  static async start(environment: EnvironmentOptions): Promise<CommitThread> {
    processGate(); // created here at the latest, so that the committing thread inherits it
    const worker = new Worker(programUrl("./worker.ts", import.meta.url), {
      name: "lmdb-commit",
      workerData: environment,
    });
    const thread = new CommitThread(worker);
    await thread.#answer();
    return thread;
  }

  /** Throws when no further commit is possible. */
  check(): void {
    if (this.#failure === undefined) return;
    throw new StoreError("fatal", this.#failure.message, {
      cause: this.#failure.cause,
      details: this.#failure.details,
    });
  }

  async commit(slabs: Slab[]): Promise<BatchResult> {
    this.check();
    const answered = this.#answer();
    this.#send(
      { kind: "commit", slabs },
      slabs.map((slab) => slab.buffer),
    );
    const answer = await answered;
    if (answer.kind === "committed") return answer.result;
    throw this.#errorOf(answer as Extract<WorkerAnswer, { kind: "failed" }>);
  }

  /** False when the thread did not end in time. */
  async close(): Promise<boolean> {
    this.#send({ kind: "close" }, []);
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, CLOSE_MS, false);
    });
    const ended = await Promise.race([this.#exited.then(() => true), late]);
    clearTimeout(timer);
    if (!ended) this.#worker.unref();
    return ended;
  }

  #send(request: WorkerRequest, transfer: ArrayBuffer[]): void {
    this.#worker.postMessage(request, transfer);
  }

  #answer(): Promise<WorkerAnswer> {
    this.#waiting = createDeferred<WorkerAnswer>();
    return this.#waiting.promise;
  }

  #errorOf({ unknown, details }: Extract<WorkerAnswer, { kind: "failed" }>): StoreError {
    // The usual reason is a full disk; the engine works again when there is space.
    const refused = details.code === "ENOSPC" ? "the disk is full" : "the engine could not write the commit";
    if (!unknown) return new StoreError("unavailable", refused, { details });
    const message = "the engine failed in the middle of a commit";
    this.#failure = new StoreError("fatal", message, { details });
    return new StoreError("commit_unknown", message, { committed: "maybe_settled", details });
  }

  #fail(cause: unknown): void {
    this.#failure ??= new StoreError("fatal", "the committing thread has ended", { cause });
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(
      new StoreError("commit_unknown", "the committing thread ended during a commit", {
        committed: "maybe_settled",
        cause,
      }),
    );
  }
}
