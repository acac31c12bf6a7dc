/** Program of the thread that writes the files of the mirror: answers each call with its result or its error, in order. */
import { parentPort, workerData } from "node:worker_threads";
import type { DataKey } from "../integrity/encryption/encrypted-bytes.ts";
import { MirrorSeal } from "./encryption/mirror-seal.ts";
import { MirrorFiles } from "./files.ts";

export interface FileCall {
  readonly method: keyof MirrorFiles;
  readonly args: unknown[];
}

export type FileAnswer = { readonly result: unknown } | { readonly error: unknown };

/** What the thread gets at its start. */
export interface FileThreadData {
  readonly folder: string;
  /** undefined: the files are plain. */
  readonly key: DataKey | undefined;
}

const { folder, key } = workerData as FileThreadData;
const files = new MirrorFiles(folder, key && new MirrorSeal(key));

parentPort!.on("message", ({ method, args }: FileCall) => {
  parentPort!.postMessage(answerTo(method, args));
});

function answerTo(method: keyof MirrorFiles, args: unknown[]): FileAnswer {
  try {
    return { result: (files[method] as (...args: unknown[]) => unknown).apply(files, args) };
  } catch (error) {
    return { error };
  }
}
