/**
 * Prepares prompts after the first transition since the start: what they need takes 55 MB and a fifth of a fleet's start, and a fleet in which
 * nothing happens hands nothing off. A handoff that needs it earlier prepares it itself.
 */
import { readTransitions, wakeOnTransitions } from "../../shared/records/outbox/outbox.ts";
import { createWake } from "../../shared/runtime/clock.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { runWorker } from "../../shared/runtime/worker.ts";
import type { Store } from "../../shared/store/store.ts";
import type { PromptRenderer } from "./prompt-renderer.ts";

/** Long enough for the rest of the command, or of the start, that made the transition. */
const REST_MS = 1_000;
/** For a missed wake-up. */
const POLL_MS = 60_000;
const READ = { label: "transitions", deadlineMs: 2_000 } as const;

export type PromptPreparationContext = Pick<ServiceContext, "clock" | "log"> & {
  readonly store: Store;
  readonly prompts: Pick<PromptRenderer, "prepare">;
};

export function startPromptPreparation({ store, prompts, clock, log }: PromptPreparationContext): Stop {
  const stopping = new AbortController();
  const { signal } = stopping;
  const wake = createWake();
  let atStart: number | undefined;
  const waiting = runWorker<never>({
    name: "preparation of prompts",
    take: async () => {
      const now = await store.read(READ, readTransitions);
      atStart ??= now;
      if (now === atStart) return [];
      prompts.prepare();
      stopping.abort();
      return [];
    },
    handle: async () => {},
    idle: { ms: POLL_MS, wake },
    signal,
    clock,
    log,
  });
  const listening = wakeOnTransitions({ store, wake, clock, signal, restMs: () => REST_MS });
  return async () => {
    stopping.abort();
    await Promise.all([waiting, listening]);
  };
}
