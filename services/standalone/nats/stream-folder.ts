/** The files of the server's streams, as far as they show whether the server has encrypted them. */
import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** The folder of the streams in the folder of the server. */
export const STREAM_FOLDER = "store";
const DESCRIPTION = "meta.inf";
const KEY = "meta.key";
const BLOCK = /^(\d+)\.blk$/;

export interface StreamFiles {
  /** The folders of streams, consumers and blocks with a file that is not encrypted. */
  readonly plain: readonly string[];
  readonly encrypted: number;
  readonly streams: number;
}

/** @param folder that of the streams. */
export function streamFiles(folder: string): StreamFiles {
  const root = join(folder, "jetstream");
  const plain = new Set<string>();
  let [encrypted, streams] = [0, 0];
  for (const path of existsSync(root) ? (readdirSync(root, { recursive: true }) as string[]) : []) {
    const place = join(root, dirname(path));
    const name = basename(path);
    const key = name === DESCRIPTION ? KEY : name.replace(BLOCK, "$1.key");
    if (key === name || isRemoved(path)) continue;
    if (name === DESCRIPTION && basename(dirname(place)) === "streams") streams += 1;
    if (existsSync(join(place, key))) encrypted += 1;
    else plain.add(place);
  }
  return { plain: [...plain], encrypted, streams };
}

/** The server gives the folder of a stream that it removes a name with a dot, and forgets it. */
const isRemoved = (path: string): boolean => path.split("/").some((part) => part.startsWith("."));

/** @param dir the folder of the server. */
export function hasEncryptedStreams(dir: string): boolean {
  return streamFiles(join(dir, STREAM_FOLDER)).encrypted > 0;
}
