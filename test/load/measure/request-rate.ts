// Two ways to send requests. Open loop: at times set beforehand, independent of the answers. The latency counts from these times, so
// a stall shows in every request that would have waited for it. Closed loop: always the same number in flight.

export interface Measured {
  /** The milliseconds of each request, failed ones included, in no particular order. */
  readonly latencies: number[];
  readonly failures: readonly unknown[];
}

/**
 * Starts request `i` at `times[i]` (ms from the beginning, ascending). `lateness` is the delay of the start in this process, which
 * the latencies include.
 */
export async function openLoop(
  times: ArrayLike<number>,
  send: (i: number) => Promise<unknown>,
): Promise<Measured & { readonly lateness: number[] }> {
  const latencies: number[] = [];
  const lateness: number[] = [];
  const failures: unknown[] = [];
  const inFlight: Promise<void>[] = [];
  const begin = performance.now() + 10;
  const start = async (i: number, due: number) => {
    await send(i).catch((error: unknown) => failures.push(error));
    latencies.push(performance.now() - due);
  };
  await new Promise<void>((resolve) => {
    let next = 0;
    const tick = () => {
      for (; next < times.length; next += 1) {
        const due = begin + times[next]!;
        const now = performance.now();
        if (due > now) break;
        lateness.push(now - due);
        inFlight.push(start(next, due));
      }
      if (next === times.length) resolve();
      else setTimeout(tick, Math.max(0, begin + times[next]! - performance.now()));
    };
    tick();
  });
  await Promise.all(inFlight);
  return { latencies, failures, lateness };
}

/** Times for `callers` at `perSecond` each: spread evenly over the second, each delayed by a random part of its share. */
export function arrivals(
  o: { callers: number; perSecond: number; seconds: number },
  random: () => number,
): { times: Float64Array; callers: Uint32Array } {
  const each = Math.round(o.perSecond * o.seconds);
  const gap = 1_000 / (o.perSecond * o.callers);
  const count = each * o.callers;
  const times = new Float64Array(count);
  const callers = new Uint32Array(count);
  // Each time stays inside its share, so the times stay in order.
  for (let i = 0; i < count; i += 1) {
    times[i] = (i + random()) * gap;
    callers[i] = i % o.callers;
  }
  return { times, callers };
}

/**
 * Keeps one request in flight for each caller, and counts the requests that end in the `seconds` after `warmUpSeconds`. The callers
 * are busy before and after that time, so that the load is the same at its ends and in its middle. `perSecond` counts the requests
 * that succeed in that time, `succeeded` those that succeed at any time.
 */
export async function closedLoop(
  o: { callers: number; warmUpSeconds: number; seconds: number },
  send: (caller: number) => Promise<unknown>,
): Promise<Measured & { readonly perSecond: number; readonly succeeded: number }> {
  const latencies: number[] = [];
  const failures: unknown[] = [];
  let succeeded = 0;
  const begin = performance.now() + o.warmUpSeconds * 1_000;
  const end = begin + o.seconds * 1_000;
  const run = async (caller: number) => {
    for (let sent = performance.now(); sent < end; ) {
      const failed = await send(caller).then(
        () => [],
        (error: unknown) => [error],
      );
      const now = performance.now();
      succeeded += 1 - failed.length;
      if (now >= begin && now < end) {
        latencies.push(now - sent);
        failures.push(...failed);
      }
      sent = now;
    }
  };
  await Promise.all(Array.from({ length: o.callers }, (_, caller) => run(caller)));
  return { latencies, failures, succeeded, perSecond: (latencies.length - failures.length) / o.seconds };
}
