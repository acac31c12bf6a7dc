/** How a tool ended. Each vendor reports it in another place. */
import { type HookEvent, isObject, stringOf } from "../event.ts";
import { readExitCode } from "./transcript.ts";

/** The last lines that Gemini writes below the output of a command; that of the exit code only after a failure. */
const GEMINI_END =
  /\n(?:Exit Code: (?<code>-?\d+)\n)?(?:Signal: (?<signal>.+)\n)?(?:Background PIDs: .+\n)?Process Group PGID: \d+\s*(?:<\/untrusted_context>)?\s*$/;
const GEMINI_CANCELLED = /^(?:<untrusted_context>\n)?Command was (?:automatically )?cancelled/;

/** Claude Code reports a failed tool with an error, and Gemini in its response. */
export function hasFailed({ error, tool_response: response }: HookEvent["payload"]): boolean {
  return isText(error) || (isObject(response) && (isText(response.error) || isObject(response.error)));
}

/** undefined: the vendor does not say how the command ended. */
export async function hasPassed(event: HookEvent): Promise<boolean | undefined> {
  const { payload, vendor } = event;
  if (hasFailed(payload)) return false;
  const { tool_response: response, tool_use_id: id, transcript_path: transcript } = payload;
  if (vendor === "codex") {
    const code = await readExitCode(stringOf(transcript), stringOf(id));
    return code === undefined ? undefined : code === 0;
  }
  if (!isObject(response)) return undefined;
  return vendor === "gemini" ? geminiOutcome(response) : claudeOutcome(response);
}

function claudeOutcome({ interrupted, backgroundTaskId }: Readonly<Record<string, unknown>>) {
  if (backgroundTaskId !== undefined || typeof interrupted !== "boolean") return undefined;
  return !interrupted;
}

function geminiOutcome({ llmContent }: Readonly<Record<string, unknown>>): boolean | undefined {
  const text = stringOf(llmContent) ?? "";
  if (GEMINI_CANCELLED.test(text)) return false;
  const end = GEMINI_END.exec(text)?.groups;
  return end === undefined ? undefined : end.code === undefined && end.signal === undefined;
}

const isText = (value: unknown): boolean => typeof value === "string" && value !== "";
