/**
 * The position of the mirror: the part of the feed whose files are in the folder. It has two places, because the files are not synced one by one (a
 * sync of each takes longer than the store has for the whole commit): that of the files that are written, and that of the files that are also on the disk. A
 * killed process loses no written file. A power cut may, so after a new start of the machine the mirror continues from the second place.
 */
import { readFileSync } from "node:fs";
import { type FeedEntry, readFeedEntry } from "../records/outbox/feed.ts";
import type { Bytes, Reader } from "../store/store.ts";

/** An entry of the feed. */
export interface FeedPlace {
  /** Its key, in hex. */
  readonly after: string;
  /** Its content, by which a backup of the store that was put back is noticed. */
  readonly entry: string;
}

export interface MirrorPosition {
  /** The identity of the store, so that the folder of another store is not taken for complete. */
  readonly store: string;
  /** The start of the machine on which the files were written; null: unknown, which equals no other one. */
  readonly boot: string | null;
  readonly written: FeedPlace;
  readonly synced: FeedPlace | null;
}

/** A position without the member `format` has this one. */
const POSITION_FORMAT = 1;

interface Versioned {
  readonly format?: number;
}

export const POSITION_BYTES_MAX = 8_192;

const BOOT_FILE = "/proc/sys/kernel/random/boot_id";
const HEX = /^([0-9a-f]{2})+$/;

/** null: this system does not tell. */
export function currentBoot(): string | null {
  try {
    return readFileSync(BOOT_FILE, "utf8").trim();
  } catch {
    return null;
  }
}

export function feedPlaceOf({
  key,
  tenant,
  task,
  checkpoint,
  version,
}: FeedEntry & { key: Bytes }): FeedPlace {
  return { after: Buffer.from(key).toString("hex"), entry: textOf({ tenant, task, checkpoint, version }) };
}

/** null: the content of the file is no position, or of another version of Fleet, so the folder is completed from the beginning. */
export function positionIn(content: string): MirrorPosition | null {
  try {
    const { format = POSITION_FORMAT, ...position } = JSON.parse(content) as MirrorPosition & Versioned;
    const { store, boot, written, synced } = position;
    if (format !== POSITION_FORMAT) return null;
    if (typeof store !== "string" || !isPlace(written)) return null;
    return {
      store,
      boot: typeof boot === "string" ? boot : null,
      written,
      synced: isPlace(synced) ? synced : null,
    };
  } catch {
    return null;
  }
}

function isPlace(value: unknown): value is FeedPlace {
  const { after, entry } = (value ?? {}) as Record<string, unknown>;
  return typeof after === "string" && HEX.test(after) && typeof entry === "string";
}

/** The place after which the mirror continues; null: from the beginning. */
export async function startOf(
  reader: Reader,
  position: MirrorPosition | null,
  { store, boot }: { readonly store: string; readonly boot: string | null },
): Promise<Bytes | null> {
  if (position?.store !== store) return null;
  const place = boot !== null && position.boot === boot ? position.written : position.synced;
  if (place === null) return null;
  const key = Buffer.from(place.after, "hex");
  const entry = await readFeedEntry(reader, key);
  return entry !== null && textOf(entry) === place.entry ? key : null;
}

function textOf({ tenant, task, checkpoint, version }: FeedEntry): string {
  return JSON.stringify([tenant, task, checkpoint, version]);
}
