/**
 * The folder of the mirror, as its readers see it: the current version of every checkpoint as one file, the audit trail of every task as JSON Lines,
 * and the position in the feed up to which both are complete. The position is kept beside the files that it describes, so a folder that was lost
 * or put back from a backup is completed from where it stands.
 */
import { readdir, readlink, rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { ENCRYPTED_BYTES_MORE } from "../integrity/encryption/encrypted-bytes.ts";
import type { Sealed } from "../integrity/seal.ts";
import type { Checkpoint } from "../protocol/checkpoint.ts";
import { FleetError } from "../protocol/errors.ts";
import { DEFAULT_TENANT, isToken } from "../protocol/ids.ts";
import { PLAIN_LINES, readTrail, sealedLines, TRAIL_ASIDE, trailAside } from "./audit-file.ts";
import { checkpointInFile, FILE_BYTES_MAX, sealedInFile } from "./checkpoint-file.ts";
import { noSeal, type SealSource } from "./encryption/mirror-key.ts";
import type { MirrorSeal } from "./encryption/mirror-seal.ts";
import {
  AUDIT_FILE,
  fileName,
  foldersOf,
  idOfFile,
  LATEST_FILE,
  type MirroredTask,
  POSITION_FILE,
  rootOf,
  SEALED_SUFFIX,
  tenantOfFolder,
} from "./place.ts";
import { type MirrorPosition, POSITION_BYTES_MAX, positionIn } from "./position.ts";
import { isFolder, isPlace, readPlainFile } from "./private-file.ts";

export class MirrorFolder {
  readonly #root: string;
  readonly #seal: SealSource;

  /** `folder` is the one that operators name. Without a seal, sealed files are refused. Plain ones are read in either case. */
  constructor(folder: string, seal = noSeal) {
    this.#root = rootOf(folder);
    this.#seal = seal;
  }

  /** Whether a mirror was ever written here. */
  exists(): Promise<boolean> {
    return isFolder(this.#root);
  }

  /** null: there is no readable file. The hash is computed from the content. */
  async read(place: MirroredTask, id: string): Promise<Sealed | null> {
    const content = await this.#content(place, id);
    return content === null ? null : sealedInFile(content);
  }

  /** null: there is no file of this checkpoint with its own hash. */
  async checkpoint(place: MirroredTask, id: string): Promise<Checkpoint | null> {
    const content = await this.#content(place, id);
    const checkpoint = content === null ? null : checkpointInFile(content);
    const { checkpoint_id, task_id, tenant } = checkpoint?.metadata ?? {};
    return checkpoint_id === id && task_id === place.task && tenant === place.tenant ? checkpoint : null;
  }

  /** The id to which `latest.json` points; null: to none. */
  async latest(place: MirroredTask): Promise<string | null> {
    const target = await readlink(join(this.#taskFolder(place), LATEST_FILE)).catch(() => null);
    return target === null ? null : idOfFile(basename(target));
  }

  /** The entries of the audit trail; a torn last line is left out. */
  audit(place: MirroredTask): AsyncIterable<string> {
    return this.#trail(place, join(this.#taskFolder(place), AUDIT_FILE));
  }

  /** The trail that the mirror set aside when another store began with this task; `hash`: of its last entry. */
  earlierAudit(place: MirroredTask, hash: string): AsyncIterable<string> {
    return this.#trail(place, trailAside(join(this.#taskFolder(place), AUDIT_FILE), hash));
  }

  /** While the mirror begins to seal, the plain trail is the whole one: it is removed when the sealed one is complete. */
  async *#trail(place: MirroredTask, path: string): AsyncGenerator<string> {
    const sealed = path + SEALED_SUFFIX;
    if ((await isPlace(path)) || !(await isPlace(sealed))) yield* readTrail(path, PLAIN_LINES);
    else yield* readTrail(sealed, sealedLines(await this.#requiredSeal(place), place));
  }

  /** The first characters of the hashes in the names of those trails. */
  async earlierAudits(place: MirroredTask): Promise<string[]> {
    const names = await namesIn(this.#taskFolder(place));
    return names.flatMap((name) => TRAIL_ASIDE.exec(name)?.slice(1) ?? []);
  }

  /** null: it is absent or damaged, so the folder is completed from the beginning. */
  async position(): Promise<MirrorPosition | null> {
    const content = await readPlainFile(join(this.#root, POSITION_FILE), POSITION_BYTES_MAX);
    return content === null ? null : positionIn(content.toString("utf8"));
  }

  /** The mirror then writes every file again. A step that is about to end may set the position once more. */
  async forgetPosition(): Promise<void> {
    await rm(join(this.#root, POSITION_FILE), { force: true });
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
    const ids = (await namesIn(this.#taskFolder(place))).map(idOfFile).filter((id) => id !== null);
    return [...new Set(ids)];
  }

  async #content(place: MirroredTask, id: string): Promise<Buffer | null> {
    for (const folder of foldersOf(this.#root, place)) if (!(await isFolder(folder))) return null;
    const name = fileName(id);
    const path = join(this.#taskFolder(place), name);
    const sealed = await readPlainFile(path + SEALED_SUFFIX, FILE_BYTES_MAX + ENCRYPTED_BYTES_MORE);
    if (sealed === null) return readPlainFile(path, FILE_BYTES_MAX);
    return (await this.#requiredSeal(place)).open(sealed, place, name);
  }

  async #requiredSeal({ task }: MirroredTask): Promise<MirrorSeal> {
    const seal = await this.#seal();
    if (seal !== undefined) return seal;
    throw new FleetError("UNAVAILABLE", "a file of the mirror is sealed, and the mirror has no key", {
      details: { task_id: task, next: "put mirror-key.json back into the folder from a copy" },
    });
  }

  #taskFolder(place: MirroredTask): string {
    return foldersOf(this.#root, place).at(-1)!;
  }
}

async function namesIn(folder: string): Promise<string[]> {
  if (!(await isFolder(folder))) return [];
  return (await readdir(folder)).sort();
}
