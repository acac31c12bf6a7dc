/**
 * The sweep: finds handoffs that are due, whatever woke nobody: a request whose event was lost, an offer that nobody took in time, an
 * agent that took a task and wrote nothing. Every instance sweeps; the transaction of a step decides which of them made it.
 */
import type { Handoff } from "../../shared/protocol/handoff.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/service.ts";
import { runWorker } from "../../shared/runtime/worker.ts";
import type { Advancing } from "./advancing.ts";

/** The longest sleep: what another instance or a writer has made due meanwhile is found after so long. */
const POLL_MS = 1_000;
/** Spreads instances that wake for the same deadline. */
const SPREAD_MS = 50;
const PAGE = 256;
const CONCURRENCY = 32;

/** Starts at once. Stop finishes the steps under way. */
export function startSweep(
  { clock, log }: ServiceContext,
  repository: Pick<CheckpointRepository, "coordination">,
  advancing: Advancing,
): Stop {
  const stopping = new AbortController();
  const { signal } = stopping;
  let sleepMs = POLL_MS;
  const sweeping = runWorker({
    name: "handoff sweep",
    take: async () => {
      const nowMs = clock.now();
      const found = await repository.coordination.dueHandoffs(nowMs + POLL_MS, PAGE, advancing.isKeptBack);
      const [due, soon] = [
        found.filter((one) => dueMs(one) <= nowMs),
        found.find((one) => dueMs(one) > nowMs),
      ];
      sleepMs = (soon === undefined ? POLL_MS : dueMs(soon) - nowMs) + Math.random() * SPREAD_MS;
      return due;
    },
    handle: (place) => advancing.attempt(place),
    concurrency: CONCURRENCY,
    idle: {
      get ms() {
        return sleepMs;
      },
    },
    signal,
    clock,
    log,
  });
  return async () => {
    stopping.abort();
    await sweeping;
  };
}

function dueMs({ due_at }: Handoff): number {
  return due_at === null ? Number.POSITIVE_INFINITY : Date.parse(due_at);
}
