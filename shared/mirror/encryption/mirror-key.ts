/** The key of the mirror's files, for the services that write and read them and for tools that read them. */
import { join } from "node:path";
import { dataKeySource } from "../../integrity/encryption/data-key-source.ts";
import type { RootKeyOptions } from "../../integrity/encryption/root-keys.ts";
import { rootOf } from "../place.ts";
import { MirrorSeal } from "./mirror-seal.ts";

const FILE = "mirror-key.json";
const CONTEXT = "file mirror";

/** Like {@link DataKeySource}; undefined: the files are plain. */
export type SealSource = () => Promise<MirrorSeal | undefined>;

export const noSeal: SealSource = async () => undefined;

/** `folder` is the one that operators name, `sources` the value of the setting of root keys. */
export function mirrorSeal(
  folder: string,
  sources: readonly string[] | undefined,
  options: RootKeyOptions,
): SealSource {
  const key = dataKeySource({ ...options, sources, file: join(rootOf(folder), FILE), context: CONTEXT });
  return async () => {
    const opened = await key();
    return opened && new MirrorSeal(opened);
  };
}
