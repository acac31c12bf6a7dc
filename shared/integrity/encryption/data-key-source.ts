/** The data key of a folder, opened when it is first needed: a folder that cannot be read must not end a service. */
import { existsSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { FleetError } from "../../protocol/errors.ts";
import type { DataKey } from "./encrypted-bytes.ts";
import { openKeyFile } from "./key-file.ts";
import { openRootKeys, type RootKeyOptions } from "./root-keys.ts";

const FOLDER_MODE = 0o700;

/** Resolves with the same key each time; undefined: nothing is encrypted. Rejects while there is no key: call it again later. */
export type DataKeySource = () => Promise<DataKey | undefined>;

export interface DataKeyPlace extends RootKeyOptions {
  /** The value of the setting of root keys. */
  readonly sources: readonly string[] | undefined;
  readonly file: string;
  /** What the key encrypts. */
  readonly context: string;
}

/**
 * It rejects with StartupError for a key that cannot be opened, and with UNAVAILABLE for a folder that has a key while the setting names none, so
 * that nothing is written plain beside what is encrypted.
 */
export function dataKeySource({ sources, file, context, ...options }: DataKeyPlace): DataKeySource {
  let opened: Promise<DataKey | undefined> | undefined;
  const open = async () => {
    if (sources === undefined) return requirePlain(file, options);
    mkdirSync(dirname(file), { recursive: true, mode: FOLDER_MODE });
    return openKeyFile(file, await openRootKeys(sources, options), { context, setting: options.setting });
  };
  return () => {
    opened ??= open().catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };
}

function requirePlain(file: string, { setting }: RootKeyOptions): undefined {
  if (!existsSync(file)) return undefined;
  throw new FleetError(
    "UNAVAILABLE",
    "the files of a folder are encrypted, and their root key is not named",
    {
      details: { setting, file, next: "set it to the root keys of the fleet" },
    },
  );
}
