/** The transcript of the demo: one line per message, with the time since the start. */
import picocolors from "picocolors";

const { bold, cyan, dim, green, red, yellow } = picocolors;

export type Tone = "plain" | "good" | "bad" | "note";

const TONES: Readonly<Record<Tone, (text: string) => string>> = {
  plain: (text) => text,
  good: green,
  bad: red,
  note: yellow,
};
const SOURCE_CHARS = 10;

export function createTimeline(write: (text: string) => void) {
  const begun = performance.now();
  return {
    heading(text: string): void {
      write(`\n${bold(text)}\n`);
    },
    /** A line of quoted text. */
    quote(line: string): void {
      write(`${" ".repeat(10)}${dim("│")} ${line}\n`);
    },
    print(source: string, text: string, tone: Tone = "plain", ms?: number): void {
      const at = ((performance.now() - begun) / 1_000).toFixed(2).padStart(6);
      const took = ms === undefined ? "" : dim(`  ${ms.toFixed(1)} ms`);
      write(`${dim(`${at} s`)}  ${cyan(source.padEnd(SOURCE_CHARS))} ${TONES[tone](text)}${took}\n`);
    },
  };
}

export type Timeline = ReturnType<typeof createTimeline>;

/** The nearest-rank percentile of samples in any order. */
export function percentile(samples: readonly number[], p: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil((p / 100) * sorted.length) - 1)] ?? Number.NaN;
}
