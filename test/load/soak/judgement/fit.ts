// A line through the samples of a measure by least squares, with the 95 % confidence interval of its slope. Neighbouring samples of one
// process resemble each other, so they count as fewer: the effective number follows from the correlation of neighbouring residuals
// (Santer et al. 2000). Without that, a slow wave would look like a certain trend.

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Line {
  /** The change of y for each unit of x. */
  readonly slope: number;
  /** The bounds of the slope with 95 % confidence. Infinite: there are too few samples. */
  readonly low: number;
  readonly high: number;
  readonly mean: number;
  readonly samples: number;
}

const POINTS_MIN = 4;
/** The error of the arithmetic itself, relative to the values. */
const ROUNDING = 1e-12;
/** The number of independent samples that a chain of similar ones has at least. */
const CORRELATION_MAX = 0.95;
/** The 97.5 % quantiles of Student's distribution with 1 to 5 degrees of freedom. */
const SMALL_QUANTILES = [12.706, 4.303, 3.182, 2.776, 2.571];
const NORMAL_QUANTILE = 1.959964;

/** The 97.5 % quantile of Student's distribution. */
export function studentQuantile(degrees: number): number {
  const whole = Math.floor(degrees);
  if (whole < 1) return Number.POSITIVE_INFINITY;
  const small = SMALL_QUANTILES[whole - 1];
  if (small !== undefined) return small;
  const z = NORMAL_QUANTILE;
  // The expansion of Cornish and Fisher.
  return (
    z +
    (z ** 3 + z) / (4 * whole) +
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / (96 * whole ** 2) +
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / (384 * whole ** 3)
  );
}

/** undefined: no line can be drawn, because there are fewer than two different x. */
export function fitLine(points: readonly Point[]): Line | undefined {
  const count = points.length;
  const mean = (of: (point: Point) => number) => points.reduce((sum, point) => sum + of(point), 0) / count;
  const [meanX, meanY] = [mean(({ x }) => x), mean(({ y }) => y)];
  const spread = points.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0);
  if (count < 2 || spread === 0) return undefined;
  const slope = points.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0) / spread;
  const rounding = ROUNDING * Math.max(...points.map(({ y }) => Math.abs(y)));
  const residuals = points.map(({ x, y }) => {
    const residual = y - meanY - slope * (x - meanX);
    return Math.abs(residual) < rounding ? 0 : residual;
  });
  const half = halfInterval(residuals, spread);
  return { slope, low: slope - half, high: slope + half, mean: meanY, samples: count };
}

function halfInterval(residuals: readonly number[], spread: number): number {
  const count = residuals.length;
  if (count < POINTS_MIN) return Number.POSITIVE_INFINITY;
  const squares = residuals.reduce((sum, one) => sum + one ** 2, 0);
  if (squares === 0) return 0;
  const neighbours = residuals.reduce((sum, one, i) => (i === 0 ? 0 : sum + one * residuals[i - 1]!), 0);
  const correlation = Math.min(CORRELATION_MAX, Math.max(0, neighbours / squares));
  const effective = (count * (1 - correlation)) / (1 + correlation);
  const degrees = effective - 2;
  if (degrees < 1) return Number.POSITIVE_INFINITY;
  return studentQuantile(degrees) * Math.sqrt(squares / degrees / spread);
}
