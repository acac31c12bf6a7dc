// Closing in reverse order of opening. Opening and closing are written on adjacent lines, so neither is forgotten;
// every step is tried whatever happened to the one before; the first error is the one reported. One step that
// hangs cannot take the time of the others, and nothing that opens late, during the closing, is leaked.

import { type Clock, systemClock } from "../clock.ts";
import type { Logger } from "../observability/log.ts";

export interface Closers {
  /** Registers how to undo what was just done. While or after closing, it is undone at once. */
  add(name: string, close: () => Promise<void> | void): void;
  /** Default 10 s for everything. A second call gets the first one's promise. Rejects with the first error. */
  close(options?: { timeoutMs?: number }): Promise<void>;
}

export class CloseTimeoutError extends Error {
  override readonly name = "CloseTimeoutError";
  readonly step: string;

  constructor(step: string) {
    super("a step of the shutdown did not finish in time");
    this.step = step;
  }
}

interface Step {
  name: string;
  close: () => Promise<void> | void;
}

export function createClosers(log: Logger, clock: Clock = systemClock): Closers {
  const steps: Step[] = [];
  let closing: Promise<void> | undefined;
  let finished = false;

  const closeAll = async (timeoutMs: number) => {
    const deadline = clock.monotonic() + timeoutMs;
    const errors: unknown[] = [];
    for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
      // The current step may use all the time that is left but a share kept for each step still to come.
      const kept = (steps.length * timeoutMs) / (4 * (steps.length + 1));
      try {
        await within(deadline - clock.monotonic() - kept, step, clock);
      } catch (error) {
        log.error({ step: step.name, error }, "closing failed");
        errors.push(error);
      }
    }
    finished = true;
    if (errors.length > 0) throw errors[0];
  };

  return {
    add(name, close) {
      if (!finished) {
        steps.push({ name, close });
        return;
      }
      void within(1_000, { name, close }, clock).catch((error: unknown) => {
        log.error({ step: name, error }, "closing failed");
      });
    },
    close({ timeoutMs = 10_000 } = {}) {
      closing ??= closeAll(timeoutMs);
      return closing;
    },
  };
}

async function within(ms: number, step: Step, clock: Clock): Promise<void> {
  const timer = new AbortController();
  const late = clock.sleep(Math.max(0, ms), timer.signal).then(() => {
    if (!timer.signal.aborted) throw new CloseTimeoutError(step.name);
  });
  try {
    await Promise.race([(async () => step.close())(), late]);
  } finally {
    timer.abort();
  }
}
