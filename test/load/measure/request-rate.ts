// How requests are started. Open loop: at times set beforehand, whatever the service does, and counted from those times, so that
// a stall is seen by everyone whom it would have kept waiting. Closed loop: always the same number in flight.

export interface Measured {
  /** Milliseconds for each request, in no particular order; one that fails has taken its time too. */
  readonly latencies: number[];
  readonly failures: readonly unknown[];
}

/**
 * Starts request `i` at `times[i]` (ms from the beginning, ascending); `lateness`: how much later this process got to it, which the
 * latencies include.
 */
export async function openLoop(
  times: ArrayLike<number>,
  send: (i: number) => Promise<unknown>,
): Promise<Measured & { readonly lateness: number[] }> {
  const latencies: number[] = [];
  const lateness: number[] = [];
  const failures: unknown[] = [];
  const underWay: Promise<void>[] = [];
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
        underWay.push(start(next, due));
      }
      if (next === times.length) resolve();
      else setTimeout(tick, Math.max(0, begin + times[next]! - performance.now()));
    };
    tick();
  });
  await Promise.all(underWay);
  return { latencies, failures, lateness };
}

/** Times for `lanes` callers at `perSecond` each: spread evenly over the second, each moved by a random part of its share. */
export function arrivals(
  o: { lanes: number; perSecond: number; seconds: number },
  random: () => number,
): { times: Float64Array; lanes: Uint32Array } {
  const each = Math.round(o.perSecond * o.seconds);
  const gap = 1_000 / (o.perSecond * o.lanes);
  const count = each * o.lanes;
  const times = new Float64Array(count);
  const lanes = new Uint32Array(count);
  // One share each, so the jittered times stay in order.
  for (let i = 0; i < count; i += 1) {
    times[i] = (i + random()) * gap;
    lanes[i] = i % o.lanes;
  }
  return { times, lanes };
}

/**
 * Keeps one request in flight per lane, and counts what ends in `seconds` after `warmUpSeconds`; the lanes are busy before and after,
 * so that neither end of the time is emptier than its middle. `perSecond` counts what succeeded
 * in that time, `succeeded` what did at any time.
 */
export async function closedLoop(
  o: { lanes: number; warmUpSeconds: number; seconds: number },
  send: (lane: number) => Promise<unknown>,
): Promise<Measured & { readonly perSecond: number; readonly succeeded: number }> {
  const latencies: number[] = [];
  const failures: unknown[] = [];
  let succeeded = 0;
  const begin = performance.now() + o.warmUpSeconds * 1_000;
  const end = begin + o.seconds * 1_000;
  const run = async (lane: number) => {
    for (let sent = performance.now(); sent < end; ) {
      const failed = await send(lane).then(
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
  await Promise.all(Array.from({ length: o.lanes }, (_, lane) => run(lane)));
  return { latencies, failures, succeeded, perSecond: (latencies.length - failures.length) / o.seconds };
}
