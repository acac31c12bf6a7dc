/** Whether the vendor shortens the context now: Gemini reports an automatic compaction before every request to its model. */
import { HOOK_VENDORS } from "../../../shared/sdk/hooks/vendors.ts";
import { type HookEvent, stringOf } from "../event.ts";
import { readUsage } from "./transcript.ts";

export async function shortensContext({ vendor, name, payload }: HookEvent): Promise<boolean> {
  const from = HOOK_VENDORS[vendor].events[name]?.automaticFromTokens;
  if (from === undefined || payload.trigger !== "auto") return true;
  const { context_tokens: tokens = 0 } = await readUsage(stringOf(payload.transcript_path));
  return tokens >= from;
}
