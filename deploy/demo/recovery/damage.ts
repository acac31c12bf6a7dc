/** Damage to a disk: one bit of what a checkpoint says is turned over in the file of the embedded store, while the fleet runs on it. */
import { type FileHandle, open } from "node:fs/promises";

const WINDOW_BYTES = 4 * 2 ** 20;
/** A checkpoint of the demo is smaller, and so stored as the text that it is. */
const CHECKPOINT_BYTES_MAX = 8_192;

export interface Target {
  readonly checkpointId: string;
  readonly agentType: string;
  /** Something that this checkpoint says, beginning with a digit. */
  readonly text: string;
}

/** What the text reads once a bit of its first character is turned over: another digit. */
export const falsified = (text: string): string =>
  String.fromCharCode(text.charCodeAt(0) ^ 1) + text.slice(1);

/** Resolves with how many copies were changed: pages that the store does not use any more hold some as well. */
export async function damage(path: string, target: Target): Promise<number> {
  const file = await open(path, "r+");
  try {
    const places = await find(file, target);
    for (const place of places) {
      await file.write(Buffer.from([target.text.charCodeAt(0) ^ 1]), 0, 1, place);
    }
    return places.length;
  } finally {
    await file.close();
  }
}

/** Where in the file the text stands in a copy of that checkpoint. */
async function find(file: FileHandle, { checkpointId, agentType, text }: Target): Promise<number[]> {
  // In this order the two stand nowhere else: not in the audit trail, nor in a checkpoint that names this one.
  const mark = `"agent_type":"${agentType}","checkpoint_id":"${checkpointId}"`;
  const { size } = await file.stat();
  const buffer = Buffer.alloc(CHECKPOINT_BYTES_MAX + WINDOW_BYTES + mark.length);
  const places: number[] = [];
  for (let from = 0; from < size; from += WINDOW_BYTES) {
    const before = Math.min(from, CHECKPOINT_BYTES_MAX);
    const { bytesRead } = await file.read(buffer, 0, before + WINDOW_BYTES + mark.length, from - before);
    const read = buffer.subarray(0, bytesRead);
    for (let at = read.indexOf(mark, before); at !== -1; at = read.indexOf(mark, at + 1)) {
      const place = read.lastIndexOf(text, at);
      if (place !== -1 && at - place < CHECKPOINT_BYTES_MAX) places.push(from - before + place);
    }
  }
  return [...new Set(places)];
}
