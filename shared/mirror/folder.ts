/**
 * The folder of the mirror: the current version of every checkpoint as one file, the audit trail of every task as JSON Lines, and the position in
 * the feed up to which both are complete. The position is kept beside the files that it describes, so a folder that was lost or put back from a
 * backup is completed from where it stands.
 */
import { readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { canonicalBytes, canonicalText, sha256Hex } from "../integrity/canonical.ts";
import type { Sealed } from "../integrity/seal.ts";
import type { Checkpoint } from "../protocol/checkpoint.ts";
import { DEFAULT_TENANT, isToken } from "../protocol/ids.ts";
import { parseJsonText } from "../protocol/json.ts";
import { LIMITS } from "../protocol/limits.ts";
import { appendTrail, readTrail, type TrailSource } from "./audit-file.ts";
import {
  AUDIT_FILE,
  fileName,
  foldersOf,
  idOfFile,
  LATEST_FILE,
  type MirroredTask,
  POSITION_FILE,
  tenantOfFolder,
} from "./place.ts";
import { isFolder, makeFolder, readPlainFile, replaceFile, syncFolder } from "./private-file.ts";

/** The hash and the signature make a file a little longer than the bytes that are hashed. */
const FILE_BYTES_MAX = LIMITS.payload_bytes_max + 4_096;
const POSITION_BYTES_MAX = 4_096;
const HEX = /^([0-9a-f]{2})+$/;

export interface MirrorPosition {
  /** The identity of the store, so that the folder of another store is not taken for complete. */
  readonly store: string;
  /** The key of the newest feed entry that the folder contains, in hex. */
  readonly after: string;
  /** The content of that entry. */
  readonly entry: string;
}

export class MirrorFolder {
  readonly #root: string;

  /** `folder` is the one that operators name; the files are in `checkpoints` below it. */
  constructor(folder: string) {
    this.#root = join(folder, "checkpoints");
  }

  /** Creates the root; the folder above it must exist. Throws UnsafePlace. */
  async prepare(): Promise<void> {
    await makeFolder(this.#root);
  }

  async makeTask(place: MirroredTask): Promise<void> {
    for (const folder of foldersOf(this.#root, place)) await makeFolder(folder);
  }

  /** The file holds the full checkpoint as it is stored, with its hash. */
  async write(place: MirroredTask, checkpoint: Checkpoint): Promise<void> {
    const path = join(this.#taskFolder(place), fileName(checkpoint.metadata.checkpoint_id));
    await replaceFile(path, `${canonicalText(checkpoint)}\n`);
  }

  /** null: there is no readable file. The hash is computed from the content. */
  async read(place: MirroredTask, id: string): Promise<Sealed | null> {
    for (const folder of foldersOf(this.#root, place)) if (!(await isFolder(folder))) return null;
    const content = await readPlainFile(join(this.#taskFolder(place), fileName(id)), FILE_BYTES_MAX);
    return content === null ? null : sealedIn(content);
  }

  async remove(place: MirroredTask, id: string): Promise<void> {
    await rm(join(this.#taskFolder(place), fileName(id)), { force: true });
  }

  /** Points `latest.json` at a checkpoint whose file is written. */
  async setLatest(place: MirroredTask, id: string): Promise<void> {
    const path = join(this.#taskFolder(place), LATEST_FILE);
    const target = fileName(id);
    if ((await readlink(path).catch(() => null)) === target) return;
    const own = `${path}.part`;
    await rm(own, { force: true });
    await symlink(target, own);
    await rename(own, path);
  }

  /** The id to which `latest.json` points; null: to none. */
  async latest(place: MirroredTask): Promise<string | null> {
    const target = await readlink(join(this.#taskFolder(place), LATEST_FILE)).catch(() => null);
    return target === null ? null : idOfFile(basename(target));
  }

  appendAudit(place: MirroredTask, source: TrailSource): Promise<void> {
    return appendTrail(join(this.#taskFolder(place), AUDIT_FILE), source);
  }

  /** The entries of the audit trail; a torn last line is left out. */
  audit(place: MirroredTask): AsyncIterable<string> {
    return readTrail(join(this.#taskFolder(place), AUDIT_FILE));
  }

  /** Makes the names of new files durable. */
  async sync(places: Iterable<MirroredTask>): Promise<void> {
    const folders = [...places].flatMap((place) => foldersOf(this.#root, place));
    for (const folder of new Set([...folders, this.#root])) await syncFolder(folder);
  }

  async position(): Promise<MirrorPosition | null> {
    const content = await readPlainFile(join(this.#root, POSITION_FILE), POSITION_BYTES_MAX);
    try {
      const { store, after, entry } = JSON.parse(content?.toString("utf8") ?? "null") as MirrorPosition;
      const isSound = [store, after, entry].every((one) => typeof one === "string") && HEX.test(after);
      return isSound ? { store, after, entry } : null;
    } catch {
      return null; // absent or damaged: the folder is completed from the beginning
    }
  }

  async setPosition(position: MirrorPosition): Promise<void> {
    await replaceFile(join(this.#root, POSITION_FILE), `${JSON.stringify(position)}\n`);
  }

  async *tasks(): AsyncGenerator<MirroredTask> {
    for (const name of await namesIn(this.#root)) {
      const tenant = tenantOfFolder(name);
      if (tenant === null) {
        if (isToken(name) && (await isFolder(join(this.#root, name))))
          yield { tenant: DEFAULT_TENANT, task: name };
        continue;
      }
      for (const task of await namesIn(join(this.#root, name)))
        if (isToken(task) && (await isFolder(join(this.#root, name, task)))) yield { tenant, task };
    }
  }

  /** The ids of the checkpoints of a task that have a file, sound or not. */
  async checkpoints(place: MirroredTask): Promise<string[]> {
    return (await namesIn(this.#taskFolder(place))).map(idOfFile).filter((id) => id !== null);
  }

  #taskFolder(place: MirroredTask): string {
    return foldersOf(this.#root, place).at(-1)!;
  }
}

async function namesIn(folder: string): Promise<string[]> {
  if (!(await isFolder(folder))) return [];
  return (await readdir(folder)).sort();
}

function sealedIn(content: Buffer): Sealed | null {
  try {
    const checkpoint = parseJsonText(content.toString("utf8")) as Checkpoint;
    const { hash: _hash, signature: _signature, ...compliance } = checkpoint.compliance;
    const bytes = canonicalBytes({ ...checkpoint, compliance });
    return { bytes, hash: sha256Hex(bytes) };
  } catch {
    return null; // no JSON, or no checkpoint
  }
}
