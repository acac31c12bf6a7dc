// Reads a file of lines in constant memory.

import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { ReadableFile } from "../../../../shared/transfer/encryption/encrypted-export.ts";
import { ExportFault } from "../../../../shared/transfer/export-line.ts";

const CHUNK_BYTES = 256 * 1024;
const LINE_FEED = 0x0a;

export interface FileLine {
  /** Without its line feed. */
  readonly bytes: Buffer;
  /** The position after its line feed. */
  readonly end: number;
}

/** The whole lines of a file from a position. `onRest` receives the number of bytes after the last line feed. Throws {@link ExportFault} for an endless line. */
export async function* fileLines(
  file: Pick<ReadableFile, "read">,
  onRest: (bytes: number) => void = () => {},
  from = 0,
): AsyncGenerator<FileLine> {
  let rest = Buffer.alloc(0);
  let [start, number] = [from, 1];
  for (let at = from; ; ) {
    const chunk = await file.read(at, CHUNK_BYTES);
    if (chunk.length === 0) break;
    at += chunk.length;
    let begin = 0;
    for (let feed = chunk.indexOf(LINE_FEED); feed >= 0; feed = chunk.indexOf(LINE_FEED, begin)) {
      const bytes = Buffer.concat([rest, chunk.subarray(begin, feed)]);
      rest = Buffer.alloc(0);
      begin = feed + 1;
      start += bytes.length + 1;
      requireLength(bytes.length, number);
      yield { bytes, end: start };
      number += 1;
    }
    rest = Buffer.concat([rest, chunk.subarray(begin)]);
    requireLength(rest.length, number);
  }
  onRest(rest.length);
}

function requireLength(bytes: number, number: number): void {
  if (bytes <= LIMITS.export_line_bytes_max) return;
  throw new ExportFault(number, `the line has more than ${LIMITS.export_line_bytes_max} bytes`);
}
