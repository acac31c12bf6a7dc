/** Damage on disk: flips one bit of a checkpoint in the file of the embedded store, while the fleet uses it. */
import { type FileHandle, open } from "node:fs/promises";

const WINDOW_BYTES = 4 * 2 ** 20;
/** A checkpoint of the demo is smaller, so it is stored as plain text. */
const CHECKPOINT_BYTES_MAX = 8_192;

export interface DamageTarget {
  readonly checkpointId: string;
  readonly agentType: string;
  /** A text of this checkpoint that begins with a digit. */
  readonly text: string;
}

/** The text with one bit of its first character flipped, which makes it another digit. */
export const falsified = (text: string): string =>
  String.fromCharCode(text.charCodeAt(0) ^ 1) + text.slice(1);

/** Resolves with the number of changed copies; unused pages of the store hold copies as well. */
export async function damage(path: string, target: DamageTarget): Promise<number> {
  const file = await open(path, "r+");
  try {
    const offsets = await find(file, target);
    for (const offset of offsets) {
      await file.write(Buffer.from([target.text.charCodeAt(0) ^ 1]), 0, 1, offset);
    }
    return offsets.length;
  } finally {
    await file.close();
  }
}

/** The offsets of the text in all copies of the checkpoint. */
async function find(file: FileHandle, { checkpointId, agentType, text }: DamageTarget): Promise<number[]> {
  // In this order, the two fields occur only in the checkpoint itself, and not in the audit trail or in other checkpoints.
  const mark = `"agent_type":"${agentType}","checkpoint_id":"${checkpointId}"`;
  const { size } = await file.stat();
  const buffer = Buffer.alloc(CHECKPOINT_BYTES_MAX + WINDOW_BYTES + mark.length);
  const offsets: number[] = [];
  for (let from = 0; from < size; from += WINDOW_BYTES) {
    const before = Math.min(from, CHECKPOINT_BYTES_MAX);
    const { bytesRead } = await file.read(buffer, 0, before + WINDOW_BYTES + mark.length, from - before);
    const read = buffer.subarray(0, bytesRead);
    for (let at = read.indexOf(mark, before); at !== -1; at = read.indexOf(mark, at + 1)) {
      const offset = read.lastIndexOf(text, at);
      if (offset !== -1 && at - offset < CHECKPOINT_BYTES_MAX) offsets.push(from - before + offset);
    }
  }
  return [...new Set(offsets)];
}
