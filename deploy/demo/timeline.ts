/** The demo's timeline: one line a happening, with the time since the start. */
import picocolors from "picocolors";

const { bold, cyan, dim, green, red, yellow } = picocolors;

export type Tone = "plain" | "good" | "bad" | "note";

const TONES: Readonly<Record<Tone, (text: string) => string>> = {
  plain: (text) => text,
  good: green,
  bad: red,
  note: yellow,
};

export function createTimeline(write: (text: string) => void) {
  const begun = performance.now();
  return {
    heading(text: string): void {
      write(`\n${bold(text)}\n`);
    },
    /** A line of somebody else's text. */
    quote(line: string): void {
      write(`${" ".repeat(10)}${dim("│")} ${line}\n`);
    },
    say(who: string, text: string, tone: Tone = "plain", ms?: number): void {
      const at = ((performance.now() - begun) / 1_000).toFixed(2).padStart(6);
      const took = ms === undefined ? "" : dim(`  ${ms.toFixed(1)} ms`);
      write(`${dim(`${at} s`)}  ${cyan(who.padEnd(8))} ${TONES[tone](text)}${took}\n`);
    },
  };
}

export type Timeline = ReturnType<typeof createTimeline>;

/** Percentile of sorted or unsorted samples, nearest rank. */
export function percentile(samples: readonly number[], p: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil((p / 100) * sorted.length) - 1)] ?? Number.NaN;
}
