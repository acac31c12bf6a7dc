/**
 * Prepares prompts after the first transition since the start: what they need takes 55 MB and a fifth of a fleet's start, and a fleet in which
 * nothing happens hands nothing off. A handoff that needs it earlier prepares it itself.
 */

import { readTransitions } from "../../shared/records/outbox/outbox.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { followTransitions } from "../../shared/service-host/store/follow-transitions.ts";
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
  let atStart: number | undefined;
  const waiting = followTransitions<never>({
    name: "preparation of prompts",
    store,
    take: async () => {
      const now = await store.read(READ, readTransitions);
      atStart ??= now;
      if (now === atStart) return [];
      prompts.prepare();
      stopping.abort();
      return [];
    },
    handle: async () => {},
    pollMs: POLL_MS,
    restMs: () => REST_MS,
    signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await waiting;
  };
}
