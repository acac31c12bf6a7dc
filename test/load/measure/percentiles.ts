// Percentiles by nearest rank: each figure is a measured value, never an interpolation.

export interface Summary {
  readonly count: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

/** The smallest value that at least the share `q` (over 0, up to 1) of the ascending values does not exceed. */
export function percentile(ascending: ArrayLike<number>, q: number): number {
  if (ascending.length === 0) throw new RangeError("nothing was measured");
  // The product may exceed the intended rank by a rounding error.
  const rank = Math.ceil(q * ascending.length - 1e-9);
  return ascending[Math.max(0, rank - 1)]!;
}

export function summarize(values: Iterable<number>): Summary {
  const ascending = Float64Array.from(values).sort();
  return {
    count: ascending.length,
    p50: percentile(ascending, 0.5),
    p95: percentile(ascending, 0.95),
    p99: percentile(ascending, 0.99),
    max: percentile(ascending, 1),
  };
}
