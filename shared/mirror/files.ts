/** Writes the files of the mirror. Its calls block, so a thread of its own runs it ({@link MirrorThread}). */
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import {
  appendTrail,
  endOfTrail,
  LastLines,
  PLAIN_LINES,
  sealedLines,
  setTrailAside,
  TRAIL_ASIDE,
  type TrailEnd,
  type TrailLines,
} from "./audit-file.ts";
import type { MirrorSeal } from "./encryption/mirror-seal.ts";
import { PlainFolders } from "./encryption/plain-folders.ts";
import {
  AUDIT_FILE,
  fileName,
  foldersOf,
  LATEST_FILE,
  type MirroredTask,
  POSITION_FILE,
  rootOf,
  SEALED_SUFFIX,
} from "./place.ts";
import { type MirrorPosition, POSITION_BYTES_MAX } from "./position.ts";
import { makeFolder, readPlainFileNow, replace, replaceFile, UnsafePlace } from "./private-file.ts";

/** New content of the folder of a task. */
export interface TaskFiles extends MirroredTask {
  /** Entries that follow the end of the trail that {@link MirrorFiles.trailEnds} returned. `isLast`: the trail has no further ones. */
  readonly trail: { readonly end: TrailEnd; readonly entries: readonly string[]; readonly isLast: boolean };
  readonly checkpoints: readonly { readonly id: string; readonly content: Uint8Array }[];
  /** The ids of checkpoints whose files are removed. */
  readonly removed: readonly string[];
  /** The id of the newest checkpoint; null: leave the link. */
  readonly latest: string | null;
}

export type EndOrUnsafe = TrailEnd | { readonly unsafe: string };

const PART = ".part";

export class MirrorFiles {
  readonly #root: string;
  readonly #part: string;
  readonly #seal: MirrorSeal | undefined;
  readonly #plain = new PlainFolders();
  readonly #lastLines = new LastLines();
  /** As this mirror has set it; null: not yet. */
  #position: string | null = null;
  #isClean = false;

  /** `folder` is the one that operators name; the files are in `checkpoints` below it. `seal` undefined: they are plain. */
  constructor(folder: string, seal?: MirrorSeal) {
    this.#root = rootOf(folder);
    this.#seal = seal;
    // Two writers, one of them without its lease, never write to the same part. No task has a dot in its name.
    this.#part = join(this.#root, randomUUID() + PART);
  }

  /**
   * Creates the root; the folder above it must exist. Returns the content of the position, which each step reads again, because the folder
   * may have been lost or put back since; null: there is none. Throws UnsafePlace.
   */
  prepare(): string | null {
    makeFolder(this.#root);
    if (!this.#isClean) this.#removeParts();
    const position =
      readPlainFileNow(join(this.#root, POSITION_FILE), POSITION_BYTES_MAX)?.toString("utf8") ?? null;
    // Another mirror, perhaps one without a seal, or a restore wrote here meanwhile.
    if (position !== this.#position) this.#plain.forget();
    return position;
  }

  /** They are left over from killed writers. */
  #removeParts(): void {
    for (const name of readdirSync(this.#root))
      if (name.endsWith(PART)) rmSync(join(this.#root, name), { force: true });
    this.#isClean = true;
  }

  /** Creates the folders. A place that is not a plain file or folder is named instead of an end. */
  trailEnds(places: readonly MirroredTask[]): EndOrUnsafe[] {
    return places.map((place) => {
      try {
        for (const folder of foldersOf(this.#root, place)) makeFolder(folder);
        return endOfTrail(this.#path(place, AUDIT_FILE), this.#lines(place));
      } catch (error) {
        if (error instanceof UnsafePlace) return { unsafe: error.path };
        throw error;
      }
    });
  }

  /** The end of the new, empty trail. */
  setTrailAside(place: MirroredTask, end: TrailEnd): TrailEnd {
    return setTrailAside(this.#path(place, AUDIT_FILE), end, this.#lines(place));
  }

  /** The trail first: it names the hash of every file that follows it. Returns the places that are not plain files or folders. */
  write(tasks: readonly TaskFiles[]): string[] {
    const unsafe: string[] = [];
    for (const task of tasks) {
      try {
        this.#write(task);
      } catch (error) {
        if (!(error instanceof UnsafePlace)) throw error;
        unsafe.push(error.path);
      }
    }
    return unsafe;
  }

  #write({ trail, checkpoints, removed, latest, ...place }: TaskFiles): void {
    appendTrail(this.#path(place, AUDIT_FILE), trail.end, trail.entries, this.#lines(place));
    for (const { id, content } of checkpoints) {
      const name = fileName(id);
      replaceFile(this.#path(place, name), this.#seal?.seal(content, place, name) ?? content, this.#part);
    }
    for (const id of removed) rmSync(this.#path(place, fileName(id)), { force: true });
    if (latest !== null)
      this.#setLatest(join(this.#folder(place), LATEST_FILE), this.#named(fileName(latest)));
    if (this.#seal === undefined || !this.#plain.mayBeIn(this.#folder(place))) return;
    for (const { id } of checkpoints) rmSync(join(this.#folder(place), fileName(id)), { force: true });
    for (const id of removed) rmSync(join(this.#folder(place), fileName(id)), { force: true });
    if (trail.isLast) this.#sealTrails(place, this.#seal);
  }

  /** Trails of the time before the seal: the current one is complete in its sealed form by now, those that were set aside are sealed here. */
  #sealTrails(place: MirroredTask, seal: MirrorSeal): void {
    const folder = this.#folder(place);
    const plain = join(folder, AUDIT_FILE);
    if (!existsSync(plain)) return;
    const lines = sealedLines(seal, place);
    for (const name of readdirSync(folder)) {
      if (!TRAIL_ASIDE.test(name) || name.endsWith(SEALED_SUFFIX)) continue;
      const entries = readFileSync(join(folder, name), "utf8").split("\n");
      const text = entries.map((entry) => (entry === "" ? "" : lines.encode(entry))).join("\n");
      replaceFile(join(folder, name + SEALED_SUFFIX), Buffer.from(text), this.#part);
      rmSync(join(folder, name));
    }
    // Last: it shows that there may be others.
    rmSync(plain);
  }

  #setLatest(path: string, target: string): void {
    if (linkIn(path) !== target) replace(path, this.#part, () => symlinkSync(target, this.#part));
  }

  setPosition(position: MirrorPosition): void {
    const content = `${JSON.stringify(position)}\n`;
    replaceFile(join(this.#root, POSITION_FILE), Buffer.from(content), this.#part);
    this.#position = content;
  }

  #lines(place: MirroredTask): TrailLines {
    return this.#seal === undefined ? PLAIN_LINES : sealedLines(this.#seal, place, this.#lastLines);
  }

  #named(name: string): string {
    return this.#seal === undefined ? name : name + SEALED_SUFFIX;
  }

  /** Of a file as this mirror writes it. */
  #path(place: MirroredTask, name: string): string {
    return join(this.#folder(place), this.#named(name));
  }

  #folder(place: MirroredTask): string {
    return foldersOf(this.#root, place).at(-1)!;
  }
}

function linkIn(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null; // absent, or no link
  }
}
