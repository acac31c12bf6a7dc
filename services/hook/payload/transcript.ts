/**
 * The usage of the context, from the end of the transcript that the agent's program writes. Only numbers and the name of the
 * model are read. A transcript of another form, or none, gives nothing.
 */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import type { Activity } from "../../../shared/protocol/turns.ts";
import { isObject } from "../event.ts";

type Usage = Pick<
  Activity,
  "model" | "context_tokens" | "context_limit" | "input_tokens" | "output_tokens" | "cached_tokens"
>;

const TAIL_BYTES = 512_000;
const MODEL_CHARS = 200;

export async function readUsage(path: string | undefined): Promise<Usage> {
  if (path === undefined) return {};
  try {
    return newestUsage(await readTail(path));
  } catch {
    return {};
  }
}

/** Codex gives its hooks the output of a command, and writes the exit code to its transcript. undefined: not there. */
export async function readExitCode(
  path: string | undefined,
  toolUseId: string | undefined,
): Promise<number | undefined> {
  if (path === undefined || toolUseId === undefined) return undefined;
  try {
    for (const line of (await readTail(path)).split("\n").reverse()) {
      const code = line.includes(toolUseId) ? exitCodeOf(parsed(line), toolUseId) : undefined;
      if (code !== undefined) return code;
    }
  } catch {
    // No transcript: nothing is known.
  }
  return undefined;
}

function exitCodeOf(entry: unknown, toolUseId: string): number | undefined {
  if (!isObject(entry) || !isObject(entry.payload) || !isObject(entry.payload.item)) return undefined;
  const { id, exit_code: code } = entry.payload.item;
  return id === toolUseId && typeof code === "number" ? code : undefined;
}

async function readTail(path: string): Promise<string> {
  // The path is the program's word: a pipe would never open.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const stat = await file.stat();
    const size = stat.isFile() ? stat.size : 0;
    const bytes = Buffer.alloc(Math.min(size, TAIL_BYTES));
    await file.read(bytes, 0, bytes.length, size - bytes.length);
    return bytes.toString("utf8");
  } finally {
    await file.close();
  }
}

function newestUsage(text: string): Usage {
  for (const line of text.split("\n").reverse()) {
    const usage = line.includes("token") ? usageOf(line) : undefined;
    if (usage !== undefined) return usage;
  }
  return {};
}

function usageOf(line: string): Usage | undefined {
  const entry = parsed(line);
  if (!isObject(entry)) return undefined;
  return claudeUsage(entry) ?? codexUsage(entry) ?? geminiUsage(entry);
}

/** The first line of the tail is cut, and the last one may be half written. */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** The context of an answer is all that the model read for it, and its own words. */
function claudeUsage({ message, isSidechain }: Readonly<Record<string, unknown>>): Usage | undefined {
  if (!isObject(message) || !isObject(message.usage) || isSidechain === true) return undefined;
  const { usage, model } = message;
  // The program's own words after an error, with zeros as usage.
  if (model === "<synthetic>") return undefined;
  const input = count(usage.input_tokens);
  const cached = count(usage.cache_read_input_tokens);
  const created = count(usage.cache_creation_input_tokens);
  const output = count(usage.output_tokens);
  return {
    ...(typeof model === "string" && { model: model.slice(0, MODEL_CHARS).toWellFormed() }),
    context_tokens: input + cached + created + output,
  };
}

function codexUsage({ payload }: Readonly<Record<string, unknown>>): Usage | undefined {
  if (!isObject(payload) || payload.type !== "token_count" || !isObject(payload.info)) return undefined;
  const { total_token_usage: total, last_token_usage: last, model_context_window: limit } = payload.info;
  return {
    ...(isObject(last) && { context_tokens: count(last.total_tokens) }),
    ...(typeof limit === "number" && { context_limit: count(limit) }),
    ...(isObject(total) && {
      input_tokens: count(total.input_tokens),
      output_tokens: count(total.output_tokens),
      cached_tokens: count(total.cached_input_tokens),
    }),
  };
}

function geminiUsage({ tokens, model }: Readonly<Record<string, unknown>>): Usage | undefined {
  if (!isObject(tokens) || typeof tokens.total !== "number") return undefined;
  return {
    ...(typeof model === "string" && { model: model.slice(0, MODEL_CHARS).toWellFormed() }),
    context_tokens: count(tokens.total),
  };
}

const count = (value: unknown): number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : 0;
