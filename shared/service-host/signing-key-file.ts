/**
 * The file of a private signing key, and the file of its successor beside it. A rotation writes the successor first, then registers it, then gives it
 * the place of its predecessor. After a crash in between, any process that uses the file continues from what is on disk.
 */
import { readFileSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { newSigningKeyPem, type SigningKey, signingKeyFrom } from "../integrity/dsse.ts";
import { exitCodes, StartupError } from "../runtime/process/startup.ts";
import { syncFolder, writeOnce } from "../runtime/process/whole-file.ts";

/** Read by others, or written by a group. A group may read: container platforms mount secrets so. */
const EXPOSED = 0o027;

export class SigningKeyFile {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  get #nextPath(): string {
    return `${this.path}.next`;
  }

  /** Creates the file, unless it exists. */
  create(): void {
    if (!isPresent(this.path)) writeOnce(this.path, newSigningKeyPem());
  }

  /** Throws StartupError for a file that is missing, exposed or no key. */
  read(): SigningKey {
    return readKey(this.path);
  }

  /** The successor, made now unless another process or an interrupted rotation has made it. */
  next(): SigningKey {
    if (!isPresent(this.#nextPath)) writeOnce(this.#nextPath, newSigningKeyPem());
    return readKey(this.#nextPath);
  }

  /** Gives the successor the place of the key. Another process may have done it. */
  promote(): void {
    try {
      renameSync(this.#nextPath, this.path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
    syncFolder(dirname(this.path));
  }
}

function isPresent(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined;
}

function readKey(path: string): SigningKey {
  try {
    const { mode } = statSync(path);
    if ((mode & EXPOSED) !== 0) throw new Error(`its mode is ${(mode & 0o777).toString(8)}`);
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
