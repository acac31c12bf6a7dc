/**
 * The file of a private signing key, and the files of its successors beside it. Each successor has a file with a name of its own until it takes the place of
 * its predecessor, so no process or thread writes over the key of another one, and an interrupted rotation loses none.
 */
import { readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { newSigningKeyPem, type SigningKey, signingKeyFrom } from "../../integrity/dsse.ts";
import { EXPOSED_KEY_MODE } from "../../protocol/signing-keys.ts";
import { exitCodes, StartupError } from "../../runtime/process/startup.ts";
import { removeUnfinished, syncFolder, writeOnce } from "../../runtime/process/whole-file.ts";

const NEXT = ".next";
const ID_CHARS = 16;

export class SigningKeyFile {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  /** Creates the file, unless it exists. */
  create(): void {
    if (!isPresent(this.path)) writeOnce(this.path, newSigningKeyPem());
  }

  /** Removes the private keys of killed processes that had not written their file, and returns their number. */
  removeUnfinished(): number {
    const name = basename(this.path);
    const isOf = (other: string) => other === name || isSuccessorOf(other, name);
    return removeUnfinished(dirname(this.path), isOf);
  }

  /** Throws StartupError for a file that is missing, exposed or no key. */
  read(): SigningKey {
    return readKey(this.path);
  }

  /**
   * A successor that `isFree` accepts: one that an interrupted rotation has left, or a new one. All processes choose the same one of those that are left.
   * Throws if the folder cannot be written.
   */
  async candidate(isFree: (id: string) => Promise<boolean>): Promise<SigningKey> {
    const folder = dirname(this.path);
    const own = basename(this.path);
    const left = readdirSync(folder).filter((name) => isSuccessorOf(name, own));
    for (const name of left.sort()) {
      const key = usableKeyAt(join(folder, name));
      if (key !== null && this.#nextPath(key.id) === join(folder, name) && (await isFree(key.id))) return key;
    }
    const pem = newSigningKeyPem();
    const key = signingKeyFrom(pem);
    writeOnce(this.#nextPath(key.id), pem);
    return key;
  }

  /** The bits of its mode; null: it cannot be read. */
  mode(): number | null {
    try {
      return statSync(this.path).mode & 0o777;
    } catch {
      return null;
    }
  }

  /** The key with this id, in its place or as a successor. null: it is not here. */
  find(id: string): SigningKey | null {
    // In this order, because a successor moves from its own file to the place of the key.
    for (const path of [this.#nextPath(id), this.path]) {
      const key = usableKeyAt(path);
      if (key?.id === id) return key;
    }
    return null;
  }

  /** Gives a successor the place of its predecessor. Another process may have done it, or an operator may have replaced the file meanwhile. */
  promote(id: string, { predecessor }: { readonly predecessor: string }): void {
    if (this.read().id !== predecessor) return;
    try {
      renameSync(this.#nextPath(id), this.path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    syncFolder(dirname(this.path));
  }

  #nextPath(id: string): string {
    return `${this.path}.${id.slice(0, ID_CHARS)}${NEXT}`;
  }
}

const isSuccessorOf = (name: string, file: string): boolean =>
  name.startsWith(`${file}.`) && name.endsWith(NEXT);

function isPresent(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

/** null: the file is missing, exposed or no key. */
function usableKeyAt(path: string): SigningKey | null {
  try {
    return readKey(path);
  } catch (error) {
    if (error instanceof StartupError) return null;
    throw error;
  }
}

function readKey(path: string): SigningKey {
  try {
    const { mode } = statSync(path);
    if ((mode & EXPOSED_KEY_MODE) !== 0) throw new Error(`its mode is ${(mode & 0o777).toString(8)}`);
    return signingKeyFrom(readFileSync(path, "utf8"));
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error);
    throw new StartupError("the signing key cannot be used", {
      exitCode: exitCodes.config,
      details: { setting: "FLEET_SIGNING_KEY", file: path, problem },
      hint: `make a key with: umask 077; openssl genpkey -algorithm ed25519 -out ${path}`,
      cause: error,
    });
  }
}
