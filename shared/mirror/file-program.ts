/** Program of the thread that writes the files of the mirror. */
import { workerData } from "node:worker_threads";
import type { DataKey } from "../integrity/encryption/encrypted-bytes.ts";
import { answerCalls } from "../runtime/process/call-answers.ts";
import { MirrorSeal } from "./encryption/mirror-seal.ts";
import { MirrorFiles } from "./files.ts";

export interface FileCall {
  readonly method: keyof MirrorFiles;
  readonly args: unknown[];
}

/** What the thread gets at its start. */
export interface FileThreadData {
  readonly folder: string;
  /** undefined: the files are plain. */
  readonly key: DataKey | undefined;
}

const { folder, key } = workerData as FileThreadData;
const files = new MirrorFiles(folder, key && new MirrorSeal(key));

answerCalls(({ method, args }: FileCall) =>
  (files[method] as (...args: unknown[]) => unknown).apply(files, args),
);
