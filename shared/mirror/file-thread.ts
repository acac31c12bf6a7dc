/** The thread that writes the files of the mirror. One call runs at a time. A thread that died is started again by the next call. */
import { Worker } from "node:worker_threads";
import { createDeferred, type Deferred } from "../runtime/deferred.ts";
import { programUrl } from "../runtime/process/installation.ts";
import type { FileAnswer, FileCall } from "./file-program.ts";
import type { MirrorFiles } from "./files.ts";

type Method = "prepare" | "trailEnds" | "setTrailAside" | "write" | "setPosition";

/** {@link MirrorFiles}, whose calls need not wait in the calling thread. */
export type MirrorWriter = {
  readonly [M in Method]: (
    ...args: Parameters<MirrorFiles[M]>
  ) => ReturnType<MirrorFiles[M]> | Promise<ReturnType<MirrorFiles[M]>>;
};

export class MirrorThread implements MirrorWriter {
  readonly #folder: string;
  #worker: Worker | undefined;
  #waiting: Deferred<unknown> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
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
    await this.#worker?.terminate();
  }

  /** `movedIn` names the buffers that the thread takes over. */
  #call<M extends Method>(
    method: M,
    movedIn: (args: Parameters<MirrorFiles[M]>) => ArrayBuffer[] = () => [],
  ) {
    return (...args: Parameters<MirrorFiles[M]>): Promise<ReturnType<MirrorFiles[M]>> => {
      this.#worker ??= this.#start();
      const waiting = createDeferred<unknown>();
      this.#waiting = waiting;
      this.#worker.postMessage({ method, args } satisfies FileCall, movedIn(args));
      return waiting.promise as Promise<ReturnType<MirrorFiles[M]>>;
    };
  }

  #start(): Worker {
    const worker = new Worker(programUrl("./file-program.ts", import.meta.url), {
      name: "file-mirror",
      workerData: this.#folder,
    });
    worker.on("message", (answer: FileAnswer) => {
      if ("error" in answer) this.#waiting?.reject(answer.error);
      else this.#waiting?.resolve(answer.result);
    });
    const end = (cause?: unknown) => {
      if (this.#worker === worker) this.#worker = undefined;
      this.#waiting?.reject(new Error("the thread of the file mirror has ended", { cause }));
    };
    worker.on("error", end);
    worker.on("exit", () => end());
    worker.unref();
    return worker;
  }
}
