// The ticks of an axis, at round numbers.

export interface AxisScale {
  readonly ticks: readonly { readonly value: number; readonly text: string }[];
  /** The place of a value, from 0 at the start of the axis to 1 at its end. */
  share(value: number): number;
}

const STEPS = [1, 2, 5, 10] as const;
const TICKS_MAX = 6;
/** A logarithmic axis over more decades than this has ticks at powers of ten only. */
const DECADES_WITH_STEPS = 2;

/** A linear axis begins at 0. A logarithmic one needs values above 0. */
export function ticksOf(values: readonly number[], kind: "linear" | "logarithmic"): AxisScale {
  if (values.length === 0 || !values.every((value) => Number.isFinite(value) && value >= 0))
    throw new RangeError(`an axis needs finite values of at least 0, not ${values.join(", ")}`);
  return kind === "linear"
    ? linear(Math.max(...values))
    : logarithmic(Math.min(...values), Math.max(...values));
}

const textOf = (value: number): string => value.toLocaleString("en-US", { maximumFractionDigits: 6 });
const rounded = (value: number): number => Number(value.toPrecision(12));

function linear(highest: number): AxisScale {
  const top = highest === 0 ? 1 : highest;
  const power = 10 ** Math.floor(Math.log10(top / TICKS_MAX));
  const step = power * STEPS.find((one) => rounded(top / (power * one)) <= TICKS_MAX)!;
  const count = Math.ceil(rounded(top / step));
  const ticks = Array.from({ length: count + 1 }, (_, i) => rounded(i * step));
  const end = ticks.at(-1)!;
  return { ticks: ticks.map((value) => ({ value, text: textOf(value) })), share: (value) => value / end };
}

function logarithmic(lowest: number, highest: number): AxisScale {
  if (lowest <= 0) throw new RangeError("a logarithmic axis needs values above 0");
  const isShort = Math.log10(highest / lowest) <= DECADES_WITH_STEPS;
  const steps = isShort ? STEPS.slice(0, 3) : [1];
  const first = Math.floor(Math.log10(lowest));
  const last = Math.ceil(Math.log10(highest)) + 1;
  const all = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i)).flatMap((power) =>
    steps.map((step) => rounded(power * step)),
  );
  const from = all.findLast((value) => value <= lowest)!;
  const to = all.find((value) => value >= highest && value > from)!;
  const ticks = all.filter((value) => value >= from && value <= to);
  const length = Math.log(to / from);
  return {
    ticks: ticks.map((value) => ({ value, text: textOf(value) })),
    share: (value) => Math.log(value / from) / length,
  };
}
