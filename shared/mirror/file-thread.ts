/**
 * The thread that writes the files of the mirror. It runs the calls one by one in their order; a further call may be made before the last answer.
 * A thread that died is started again by the next call.
 */
import { Worker } from "node:worker_threads";
import { createDeferred, type Deferred } from "../runtime/deferred.ts";
import { programUrl } from "../runtime/process/installation.ts";
import type { MirrorSeal } from "./encryption/mirror-seal.ts";
import type { FileAnswer, FileCall, FileThreadData } from "./file-program.ts";
import type { MirrorFiles } from "./files.ts";

type Method = "prepare" | "trailEnds" | "setTrailAside" | "write" | "setPosition";

/** {@link MirrorFiles}, whose calls need not wait in the calling thread. */
export type MirrorWriter = {
  readonly [M in Method]: (
    ...args: Parameters<MirrorFiles[M]>
  ) => ReturnType<MirrorFiles[M]> | Promise<ReturnType<MirrorFiles[M]>>;
};

interface RunningThread {
  readonly worker: Worker;
  /** The calls without an answer, in their order. */
  readonly waiting: Deferred<unknown>[];
}

export class MirrorThread implements MirrorWriter {
  readonly #data: FileThreadData;
  #running: RunningThread | undefined;

  constructor(folder: string, seal?: MirrorSeal) {
    this.#data = { folder, key: seal?.key };
  }

  readonly prepare = this.#call("prepare");
  readonly trailEnds = this.#call("trailEnds");
  readonly setTrailAside = this.#call("setTrailAside");
  readonly write = this.#call("write", ([tasks]) =>
    tasks.flatMap(({ checkpoints }) => checkpoints.map(({ content }) => content.buffer as ArrayBuffer)),
  );
  readonly setPosition = this.#call("setPosition");

  /** Call it after the last answer. */
  async close(): Promise<void> {
    await this.#running?.worker.terminate();
  }

  /** `movedIn` names the buffers that the thread takes over. */
  #call<M extends Method>(
    method: M,
    movedIn: (args: Parameters<MirrorFiles[M]>) => ArrayBuffer[] = () => [],
  ) {
    return (...args: Parameters<MirrorFiles[M]>): Promise<ReturnType<MirrorFiles[M]>> => {
      this.#running ??= this.#start();
      const { worker, waiting } = this.#running;
      const answer = createDeferred<unknown>();
      waiting.push(answer);
      worker.postMessage({ method, args } satisfies FileCall, movedIn(args));
      return answer.promise as Promise<ReturnType<MirrorFiles[M]>>;
    };
  }

  #start(): RunningThread {
    const worker = new Worker(programUrl("./file-program.ts", import.meta.url), {
      name: "file-mirror",
      workerData: this.#data,
    });
    const running: RunningThread = { worker, waiting: [] };
    worker.on("message", (answer: FileAnswer) => {
      const waiting = running.waiting.shift();
      if ("error" in answer) waiting?.reject(answer.error);
      else waiting?.resolve(answer.result);
    });
    const end = (cause?: unknown) => {
      if (this.#running === running) this.#running = undefined;
      for (const waiting of running.waiting.splice(0))
        waiting.reject(new Error("the thread of the file mirror has ended", { cause }));
    };
    worker.on("error", end);
    worker.on("exit", () => end());
    worker.unref();
    return running;
  }
}
