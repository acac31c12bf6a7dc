/**
 * Loads the tables of the tokenizer, which takes a fifth of a fleet's start, when the service has reported that it
 * is ready. A handoff that needs them earlier loads them itself.
 */
import { tokenizer } from "../../shared/prompts/tokens.ts";
import type { Clock } from "../../shared/runtime/clock.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";

/** Long enough for the rest of the start. */
const DELAY_MS = 1_000;

export function startTokenizerLoad(clock: Pick<Clock, "sleep">, load: () => unknown = tokenizer): Stop {
  const stopping = new AbortController();
  const loading = clock.sleep(DELAY_MS, stopping.signal).then(() => {
    if (!stopping.signal.aborted) load();
  });
  return async () => {
    stopping.abort();
    await loading;
  };
}
