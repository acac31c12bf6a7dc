// Reads JSON documents from an argument, a file or standard input.

import { readFile } from "node:fs/promises";
import { parseJsonText } from "../../../shared/protocol/json.ts";
import { UsageError } from "../runtime/usage.ts";

export type JsonObject = Record<string, unknown>;

/** Throws a UsageError that names `from` unless the text is one JSON object. */
export function parseObject(text: string, from: string): JsonObject {
  let value: unknown;
  try {
    value = parseJsonText(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${from} is not JSON: ${reason}`, "Give one JSON object.");
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new UsageError(`${from} is not a JSON object`, "Give one JSON object: {…}.");
  }
  return value as JsonObject;
}

/** `-` means standard input. */
export async function readObject(path: string, stdin: NodeJS.ReadStream): Promise<JsonObject> {
  if (path === "-") return parseObject(await readAll(stdin), "standard input");
  try {
    return parseObject(await readFile(path, "utf8"), path);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const reason = (error as NodeJS.ErrnoException).code ?? String(error);
    throw new UsageError(
      `${path} cannot be read: ${reason}`,
      "Give the path of a file with one JSON object.",
    );
  }
}

/** `argument` is the JSON text itself, `@file`, or `-` for standard input. */
export function readArgument(argument: string, stdin: NodeJS.ReadStream, name: string): Promise<JsonObject> {
  if (argument === "-") return readObject("-", stdin);
  if (argument.startsWith("@")) return readObject(argument.slice(1), stdin);
  return Promise.resolve(parseObject(argument, name));
}

/**
 * Reads standard input that no option names. A parent process may leave a pipe open without ever writing to it, so the
 * wait is bounded: throws UsageError if no byte arrives within `waitMs`.
 */
export async function readPiped(stdin: NodeJS.ReadStream, waitMs: number): Promise<JsonObject | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      stdin.destroy();
      const hint = "Give --type and --phase, or the checkpoint with --file, or --file - to wait for it.";
      reject(new UsageError("standard input stayed empty", hint));
    }, waitMs);
  });
  try {
    const text = await Promise.race([readAll(stdin, () => clearTimeout(timer)), late]);
    return text.trim() === "" ? undefined : parseObject(text, "standard input");
  } finally {
    clearTimeout(timer);
  }
}

async function readAll(stdin: NodeJS.ReadStream, onChunk: () => void = () => {}): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stdin) {
    onChunk();
    chunks.push(Buffer.from(chunk));
  }
  return Buffer.concat(chunks).toString("utf8");
}
