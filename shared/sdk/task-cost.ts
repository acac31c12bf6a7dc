/**
 * What a task has cost, from its checkpoints. Agents report running totals for each iteration. The difference to the previous checkpoint
 * of the same iteration is the cost of the segment in which the work was done.
 */
import type { Checkpoint } from "../protocol/checkpoint.ts";
import { groupBy } from "../protocol/group-by.ts";

export interface Money {
  readonly amount: number;
  /** ISO 4217. */
  readonly currency: string;
}

export interface Spending {
  readonly checkpoints: number;
  readonly tokens: number;
  /** One sum for each currency, in alphabetical order. Empty: the agents reported no money. */
  readonly money: readonly Money[];
}

/** A run of checkpoints by one agent, in one phase, with one model. */
export interface Segment extends Spending {
  readonly agent_id: string;
  readonly phase: string;
  /** null: not reported. */
  readonly model: string | null;
  readonly first_seq: number;
  readonly last_seq: number;
}

const DEFAULT_CURRENCY = "USD";
/** Sums of fractions are rounded to this part of a unit, because binary fractions do not add up exactly. */
const PARTS = 1_000_000;

/** @param history all checkpoints of the task, the oldest first. */
export function taskSegments(history: readonly Checkpoint[]): Segment[] {
  const meter = new Meter();
  const segments: Segment[] = [];
  for (const checkpoint of history) {
    const { metadata, execution_state, metrics } = checkpoint;
    const { agent_id, seq } = metadata;
    const here = { agent_id, phase: execution_state.phase, model: metrics.model ?? null };
    const spent = meter.read(checkpoint);
    const last = segments.at(-1);
    const continues = last && KEYS.every((key) => last[key] === here[key]);
    if (continues) segments.pop();
    const first_seq = continues ? last.first_seq : seq;
    segments.push({ ...here, first_seq, last_seq: seq, ...total(continues ? [last, spent] : [spent]) });
  }
  return segments;
}

const KEYS = ["agent_id", "phase", "model"] as const;

/** The sums for each agent, phase or model, in the order of their first segments. */
export function spendingBy(
  segments: readonly Segment[],
  key: "agent_id" | "phase" | "model",
): (Spending & { readonly key: string | null })[] {
  const groups = groupBy(segments, (segment) => segment[key]);
  return [...groups].map(([name, members]) => ({ key: name, ...total(members) }));
}

export function total(parts: readonly Spending[]): Spending {
  const sums = groupBy(
    parts.flatMap(({ money }) => money),
    ({ currency }) => currency,
  );
  return {
    checkpoints: sum(parts.map(({ checkpoints }) => checkpoints)),
    tokens: sum(parts.map(({ tokens }) => tokens)),
    money: [...sums]
      .map(([currency, entries]) => ({ currency, amount: rounded(sum(entries.map(({ amount }) => amount))) }))
      .sort((a, b) => (a.currency < b.currency ? -1 : 1)),
  };
}

/** The last totals of each iteration. */
class Meter {
  readonly #tokens = new Map<string, number>();
  readonly #amounts = new Map<string, number>();

  read({ metadata, metrics }: Checkpoint): Spending {
    const { agent_id, session_id = "", iteration } = metadata;
    const series = JSON.stringify([agent_id, session_id, iteration]);
    const { amount, currency = DEFAULT_CURRENCY } = metrics.cost ?? {};
    const tokens = increase(this.#tokens, series, metrics.tokens_consumed);
    if (amount === undefined) return { checkpoints: 1, tokens, money: [] };
    const spent = increase(this.#amounts, `${series} ${currency}`, amount);
    return { checkpoints: 1, tokens, money: [{ currency, amount: rounded(spent) }] };
  }
}

/** A total that has become smaller began again, and counts in full. */
function increase(totals: Map<string, number>, series: string, now: number): number {
  const before = totals.get(series) ?? 0;
  totals.set(series, now);
  return now < before ? now : now - before;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
const rounded = (amount: number): number => Math.round(amount * PARTS) / PARTS;
