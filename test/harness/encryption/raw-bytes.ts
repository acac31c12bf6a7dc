/** Looks for a text in raw bytes of files, in the forms in which programs write texts. */
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync, inflateRawSync, inflateSync } from "node:zlib";

/** The bytes of a text in base64 at each of the three offsets to a group, without the characters that neighbours share. */
function base64Forms(text: Buffer): Buffer[] {
  return [0, 1, 2].flatMap((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), text]).toString("base64");
    const whole = encoded.replace(/=+$/, "");
    const from = offset === 0 ? 0 : offset + 1;
    const inner = whole.slice(from, whole.length - 2);
    return [Buffer.from(inner), Buffer.from(inner.replaceAll("+", "-").replaceAll("/", "_"))];
  });
}

function formsOf(text: string): Buffer[] {
  const bytes = Buffer.from(text);
  const escaped = [...text].map((one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");
  return [
    bytes,
    Buffer.from(bytes.toString("hex")),
    Buffer.from(bytes.toString("hex").toUpperCase()),
    Buffer.from(text, "utf16le"),
    Buffer.from(text, "utf16le").swap16(),
    Buffer.from(escaped),
    Buffer.from([...text].reverse().join("")),
    ...base64Forms(bytes),
  ];
}

/** The starts of compressed data: gzip, zlib at its usual levels. */
const GZIP = Buffer.from([0x1f, 0x8b, 0x08, 0x00]);
const GZIP_HEADER_BYTES = 10;
const ZLIB = [0x01, 0x5e, 0x9c, 0xda].map((level) => Buffer.from([0x78, level]));

function decompressed(bytes: Buffer): Buffer[] {
  const found: Buffer[] = [];
  const attempt = (decompress: () => Buffer) => {
    try {
      found.push(decompress());
    } catch {
      // Bytes that only look like the start of compressed data.
    }
  };
  const options = { maxOutputLength: 32 * 1024 * 1024, finishFlush: 2 };
  for (let at = bytes.indexOf(GZIP); at !== -1; at = bytes.indexOf(GZIP, at + 1))
    attempt(() => inflateRawSync(bytes.subarray(at + GZIP_HEADER_BYTES), options));
  for (const start of ZLIB)
    for (let at = bytes.indexOf(start); at !== -1; at = bytes.indexOf(start, at + 1))
      attempt(() => inflateSync(bytes.subarray(at), options));
  attempt(() => brotliDecompressSync(bytes, { maxOutputLength: options.maxOutputLength }));
  attempt(() => inflateRawSync(bytes, options));
  return found;
}

/** All files below a folder; none if there is no folder. */
export function filesBelow(folder: string): string[] {
  if (!existsSync(folder)) return [];
  if (statSync(folder).isFile()) return [folder];
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
}

export function holdsText(bytes: Buffer, text: string): boolean {
  const forms = formsOf(text);
  const holds = (content: Buffer) => forms.some((form) => content.includes(form));
  return holds(bytes) || decompressed(bytes).some(holds);
}

/** The files below a folder whose bytes, or whose names, have the text. */
export function filesWith(folder: string, text: string): string[] {
  return filesBelow(folder).filter((path) => path.includes(text) || holdsText(bytesOf(path), text));
}

/** A running program may have removed the file meanwhile. */
function bytesOf(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return Buffer.alloc(0);
    throw error;
  }
}
