// A disk with all that a power cut may take back. Writes and new names count as on the disk only after a sync that began after they had
// ended. Until then each of them may be there or not: what is lost does not depend on the order of the writes.

/** A change of a file. */
export interface FileChange {
  readonly kind: "write" | "size";
  /** Where the bytes begin, or the new size. */
  readonly at: number;
  bytes: Buffer;
  ended: boolean;
  synced: boolean;
}

/** A change of names: what each of them leads to afterwards. A rename changes two at once. */
export interface NameChange {
  readonly names: readonly {
    readonly folder: number;
    readonly name: string;
    readonly to: number | undefined;
  }[];
  ended: boolean;
  synced: boolean;
}

export interface RecordedFile {
  readonly id: number;
  readonly isFolder: boolean;
  /** The content that no power cut takes back. */
  durable: Buffer;
  /** Later changes, oldest first. */
  changes: FileChange[];
}

export class RecordedDisk {
  readonly files = new Map<number, RecordedFile>();
  /** `folder/name` → file: the names that no power cut takes back. */
  readonly durableNames = new Map<string, number>();
  nameChanges: NameChange[] = [];
  readonly #names = new Map<string, number>();
  readonly root: number;

  constructor() {
    this.root = this.newFile(true).id;
  }

  newFile(isFolder: boolean): RecordedFile {
    const file = { id: this.files.size + 1, isFolder, durable: Buffer.alloc(0), changes: [] };
    this.files.set(file.id, file);
    return file;
  }

  /** The file that a name leads to now. */
  at(folder: number, name: string): number | undefined {
    return this.#names.get(nameKey(folder, name));
  }

  /** Any change of names, visible at once. */
  rename(names: NameChange["names"]): NameChange {
    const change = { names, ended: false, synced: false };
    this.nameChanges.push(change);
    for (const { folder, name, to } of names) setName(this.#names, nameKey(folder, name), to);
    return change;
  }

  change(file: number, kind: FileChange["kind"], at: number, bytes: Buffer): FileChange {
    const change = { kind, at, bytes, ended: false, synced: false };
    this.files.get(file)!.changes.push(change);
    return change;
  }

  /** The size that programs see. */
  sizeOf(file: number): number {
    const { durable, changes } = this.files.get(file)!;
    return changes.reduce(sizeAfter, durable.length);
  }

  /** The names as programs see them. */
  get names(): ReadonlyMap<string, number> {
    return this.#names;
  }

  /** The content that programs see. */
  contentOf(file: number): Buffer {
    const { durable, changes } = this.files.get(file)!;
    return changes.reduce(applied, Buffer.from(durable));
  }

  /** What a sync that begins now brings to the disk. The caller calls the result when the sync has ended. */
  beginSync(file: number): () => void {
    const { isFolder, changes } = this.files.get(file)!;
    const covered: (FileChange | NameChange)[] = isFolder
      ? this.nameChanges.filter(({ names }) => names.some(({ folder }) => folder === file))
      : changes;
    const ended = covered.filter((change) => change.ended);
    return () => {
      for (const change of ended) change.synced = true;
      if (isFolder) this.#settleNames();
      else settle(this.files.get(file)!);
    };
  }

  /** The bytes of this write are on the disk. */
  synced(file: number, change: FileChange): void {
    change.synced = true;
    settle(this.files.get(file)!);
  }

  /** The state after a power cut, which is on the disk for good. */
  restart(names: ReadonlyMap<string, number>, contentOf: (file: RecordedFile) => Buffer): void {
    this.nameChanges = [];
    for (const own of [this.durableNames, this.#names]) {
      own.clear();
      for (const [key, to] of names) own.set(key, to);
    }
    for (const file of this.files.values()) {
      file.durable = contentOf(file);
      file.changes = [];
    }
  }

  #settleNames(): void {
    const first = this.nameChanges.findIndex(({ synced }) => !synced);
    const settled = this.nameChanges.splice(0, first === -1 ? this.nameChanges.length : first);
    for (const { folder, name, to } of settled.flatMap(({ names }) => names))
      setName(this.durableNames, nameKey(folder, name), to);
  }
}

export const nameKey = (folder: number, name: string): string => `${folder}/${name}`;

export function setName(names: Map<string, number>, key: string, to: number | undefined): void {
  if (to === undefined) names.delete(key);
  else names.set(key, to);
}

export const sizeAfter = (size: number, { kind, at, bytes }: FileChange): number =>
  kind === "size" ? at : Math.max(size, at + bytes.length);

/** Moves the changes that are on the disk, as far as none before them is missing, to its content. */
function settle(file: RecordedFile): void {
  const first = file.changes.findIndex(({ synced }) => !synced);
  for (const change of file.changes.splice(0, first === -1 ? file.changes.length : first))
    file.durable = applied(file.durable, change);
}

/** May change `content`. */
export function applied(content: Buffer, change: FileChange): Buffer {
  const after = resized(content, sizeAfter(content.length, change));
  if (change.kind === "write") change.bytes.copy(after, change.at);
  return after;
}

function resized(content: Buffer, size: number): Buffer {
  if (size <= content.length) return content.subarray(0, size);
  return Buffer.concat([content, Buffer.alloc(size - content.length)]);
}
