// Charts as SVG, for a page on a light or a dark background. A chart is a list of lines; each has a label, and a bar or dots on a
// common axis. The same lines always give the same bytes.

import { ticksOf } from "./ticks.ts";

/** `own` is the fleet, `other` what it is compared with, `missed` a figure beyond its limit. */
export type Tone = "own" | "other" | "missed";

interface Dot {
  readonly value: number;
  readonly tone: Tone;
  /** A ring in place of a disc, for the second figure of a line. */
  readonly hollow?: boolean;
}

export interface ChartLine {
  readonly label: string;
  /** The figures with their units, at the end of the line. */
  readonly text: string;
  readonly dots: readonly Dot[];
}

export interface Chart {
  /** One sentence for readers who cannot see the chart. */
  readonly title: string;
  /** What the axis shows, with its unit. */
  readonly axis: string;
  /** A bar begins at 0; dots may stand on a logarithmic axis. */
  readonly shape: "bars" | "dots";
  readonly lines: readonly ChartLine[];
  /** A vertical line with its words. */
  readonly limit?: { readonly value: number; readonly label: string };
  /** The words for a disc and for a ring. */
  readonly legend?: readonly [disc: string, ring: string];
}

const WIDTH = 900;
const PAD = 16;
const LINE = 26;
/** The space for a legend or the words of a limit. */
const HEAD = 30;
const HEAD_WITHOUT_WORDS = 8;
const FOOT = 46;
const BAR = 14;
const GAP = 12;
const LABEL_MAX = 420;

/** Neither font nor its widths are known here; this is wide enough for the system fonts of 12 px. */
const CHAR = 6.4;

/** Each colour on white and on black has the contrast that its use needs. */
const STYLE = `
  svg { --page: #ffffff; --text: #1f2328; --soft: #59636e; --grid: #d1d9e0; --own: #0969da; --other: #818b98; --missed: #cf222e }
  @media (prefers-color-scheme: dark) {
    svg { --page: #0d1117; --text: #f0f6fc; --soft: #9198a1; --grid: #30363d; --own: #4493f8; --other: #8b949e; --missed: #f85149 }
  }
  text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--text) }
  .soft { fill: var(--soft) }
  .grid { stroke: var(--grid) }
  .limit { stroke: var(--text); stroke-dasharray: 4 3 }
  .own { fill: var(--own); stroke: var(--own) }
  .other { fill: var(--other); stroke: var(--other) }
  .missed { fill: var(--missed); stroke: var(--missed) }
  .ring { fill: var(--page); stroke-width: 2 }
  .span { stroke: var(--grid); stroke-width: 4 }
`;

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const px = (value: number): string => String(Math.round(value * 10) / 10);
const widthOf = (text: string): number => text.length * CHAR;

/** A label that is too long loses its end. */
function labelOf({ label }: ChartLine): string {
  const length = Math.floor(LABEL_MAX / CHAR);
  return label.length <= length ? label : `${label.slice(0, length - 1)}…`;
}

export function drawChart(chart: Chart): string {
  const { lines, shape, axis, title, limit, legend } = chart;
  const values = [
    ...lines.flatMap(({ dots }) => dots.map(({ value }) => value)),
    ...(limit ? [limit.value] : []),
  ];
  const { ticks, share } = ticksOf(values, shape === "bars" ? "linear" : "logarithmic");
  const left = PAD + Math.max(...lines.map((line) => widthOf(labelOf(line)))) + GAP;
  const right = WIDTH - PAD - Math.max(...lines.map(({ text }) => widthOf(text))) - GAP;
  const at = (value: number): number => left + share(value) * (right - left);
  const top = limit === undefined && legend === undefined ? HEAD_WITHOUT_WORDS : HEAD;
  const bottom = top + lines.length * LINE;
  const height = bottom + FOOT;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img">`,
    `<title>${escaped(title)}</title>`,
    `<style>${STYLE}</style>`,
    `<rect width="${WIDTH}" height="${height}" style="fill: var(--page)"/>`,
    ...ticks.flatMap(({ value, text }) => [
      `<line class="grid" x1="${px(at(value))}" x2="${px(at(value))}" y1="${top}" y2="${bottom}"/>`,
      `<text class="soft" x="${px(at(value))}" y="${bottom + 18}" text-anchor="middle">${text}</text>`,
    ]),
    `<text class="soft" x="${px((left + right) / 2)}" y="${bottom + 37}" text-anchor="middle">${escaped(axis)}</text>`,
    ...(legend === undefined ? [] : legendAt(left, legend)),
    ...(limit === undefined ? [] : limitAt(at(limit.value), bottom, limit.label)),
    ...lines.flatMap((line, i) => drawLine(line, shape, top + i * LINE + LINE / 2, { left, at })),
  ];
  return `${parts.join("\n")}\n</svg>\n`;
}

interface Place {
  readonly left: number;
  at(value: number): number;
}

function drawLine(line: ChartLine, shape: Chart["shape"], y: number, { left, at }: Place): string[] {
  const { text, dots } = line;
  const baseline = px(y + 4);
  const xs = dots.map(({ value }) => at(value));
  const marks =
    shape === "bars"
      ? dots.map(
          ({ tone }, i) =>
            `<rect class="${tone}" x="${px(left)}" y="${px(y - BAR / 2)}" width="${px(Math.max(1, xs[i]! - left))}" height="${BAR}" rx="2"/>`,
        )
      : [
          ...(dots.length < 2
            ? []
            : [
                `<line class="span" x1="${px(Math.min(...xs))}" x2="${px(Math.max(...xs))}" y1="${px(y)}" y2="${px(y)}"/>`,
              ]),
          ...dots.map(
            ({ tone, hollow = false }, i) =>
              `<circle class="${tone}${hollow ? " ring" : ""}" cx="${px(xs[i]!)}" cy="${px(y)}" r="5"/>`,
          ),
        ];
  return [
    `<text x="${px(left - GAP)}" y="${baseline}" text-anchor="end">${escaped(labelOf(line))}</text>`,
    ...marks,
    `<text class="soft" x="${WIDTH - PAD}" y="${baseline}" text-anchor="end">${escaped(text)}</text>`,
  ];
}

function limitAt(x: number, bottom: number, label: string): string[] {
  return [
    `<line class="limit" x1="${px(x)}" x2="${px(x)}" y1="${HEAD - 6}" y2="${bottom}"/>`,
    `<text x="${px(x)}" y="${HEAD - 12}" text-anchor="middle">${escaped(label)}</text>`,
  ];
}

function legendAt(left: number, [disc, ring]: readonly [string, string]): string[] {
  const y = HEAD / 2;
  const second = left + 16 + widthOf(disc) + 24;
  return [
    `<circle class="other" cx="${px(left + 5)}" cy="${y}" r="5"/>`,
    `<text class="soft" x="${px(left + 16)}" y="${y + 4}">${escaped(disc)}</text>`,
    `<circle class="other ring" cx="${px(second + 5)}" cy="${y}" r="5"/>`,
    `<text class="soft" x="${px(second + 16)}" y="${y + 4}">${escaped(ring)}</text>`,
  ];
}
