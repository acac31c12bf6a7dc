/** The thread that writes the files of the mirror. */

import { CallThread } from "../runtime/process/call-thread.ts";
import { programUrl } from "../runtime/process/installation.ts";
import type { MirrorSeal } from "./encryption/mirror-seal.ts";
import type { FileCall, FileThreadData } from "./file-program.ts";
import type { MirrorFiles } from "./files.ts";

type Method = "prepare" | "trailEnds" | "setTrailAside" | "write" | "setPosition";

/** {@link MirrorFiles}, whose calls need not wait in the calling thread. */
export type MirrorWriter = {
  readonly [M in Method]: (
    ...args: Parameters<MirrorFiles[M]>
  ) => ReturnType<MirrorFiles[M]> | Promise<ReturnType<MirrorFiles[M]>>;
};

export class MirrorThread implements MirrorWriter {
  readonly #thread: CallThread<FileCall>;

  constructor(folder: string, seal?: MirrorSeal) {
    const data: FileThreadData = { folder, key: seal?.key };
    this.#thread = new CallThread(programUrl("./file-program.ts", import.meta.url), {
      name: "file-mirror",
      data,
    });
  }

  readonly prepare = this.#call("prepare");
  readonly trailEnds = this.#call("trailEnds");
  readonly setTrailAside = this.#call("setTrailAside");
  readonly write = this.#call("write", ([tasks]) =>
    tasks.flatMap(({ checkpoints }) => checkpoints.map(({ content }) => content.buffer as ArrayBuffer)),
  );
  readonly setPosition = this.#call("setPosition");

  /** Call it after the last answer. */
  close(): Promise<void> {
    return this.#thread.close();
  }

  /** `movedIn` names the buffers that the thread takes over. */
  #call<M extends Method>(
    method: M,
    movedIn: (args: Parameters<MirrorFiles[M]>) => ArrayBuffer[] = () => [],
  ) {
    return (...args: Parameters<MirrorFiles[M]>) =>
      this.#thread.call({ method, args }, movedIn(args)) as Promise<ReturnType<MirrorFiles[M]>>;
  }
}
