// Closing in reverse order of opening. Opening and closing are written on adjacent lines, so neither is
// forgotten. Every step is tried even when an earlier one failed, and the first error is reported. A step
// that hangs cannot use up the time of the others, and a resource that opens late, during the closing, is not
// leaked.

import { type Clock, systemClock } from "../clock.ts";
import type { Logger } from "../observability/log.ts";

export interface Closers {
  /** Registers the function that closes a resource that was just opened. After the closing it is called at once. */
  add(name: string, close: () => Promise<void> | void): void;
  /**
   * Default 10 s for all steps. A second call returns the promise of the first. Rejects with the first error.
   */
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
      // The current step may use the remaining time except a share for each step after it.
      const reservedMs = (steps.length * timeoutMs) / (4 * (steps.length + 1));
      try {
        await within(deadline - clock.monotonic() - reservedMs, step, clock);
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
