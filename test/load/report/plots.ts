// The charts of the report: which figures of the stored runs they show.

import { formatNumber } from "../measure/table.ts";
import { type Bound, type Row, UNJUDGED } from "../measure/targets.ts";
import { type PeerFigures, peersIn } from "../peers/rows.ts";
import { type Chart, type ChartLine, drawChart } from "./chart.ts";
import { type GroupOfRun, type NamedRun, newestGroups, rowOf } from "./results.ts";

export interface Plot {
  /** The name of its file, without the extension. */
  readonly name: string;
  readonly title: string;
  readonly svg: string;
}

/** A chart without a figure is left out. */
export function plotsOf(runs: readonly NamedRun[]): Plot[] {
  const newest = newestGroups(runs);
  const charts: Record<string, Chart> = {
    commits: commitsChart(runs),
    "peers-commits": peerCommitsChart(newest),
    "peers-writes": peerTimesChart(newest, "write", "Writes of the same states with 1,000 in flight"),
    "peers-latest": peerTimesChart(newest, "latest", "Reads of the newest checkpoint, one at a time"),
    targets: targetsChart(newest),
  };
  return Object.entries(charts)
    .filter(([, { lines }]) => lines.length > 0)
    .map(([name, chart]) => ({ name, title: chart.title, svg: drawChart(chart) }));
}

/** The fleet and its raw store, in every run that measured both. */
function commitsChart(runs: readonly NamedRun[]): Chart {
  const lines = runs.flatMap((run) =>
    run.groups
      .filter(({ name }) => name === "sustained")
      .flatMap(({ store }): ChartLine[] => {
        const commits = rowOf(run, { group: "sustained", store, what: "commits" })?.value;
        const raw = rowOf(run, { group: "raw", store, what: `${store} commits, 1,000 in flight` })?.value;
        const line = (of: string, value: number | null | undefined, tone: "own" | "other"): ChartLine[] =>
          value == null
            ? []
            : [
                {
                  label: `${run.name}: ${of}`,
                  text: `${formatNumber(value)}/s`,
                  dots: [{ value, tone }],
                },
              ];
        return [...line(`fleet on ${store}`, commits, "own"), ...line(`${store} alone`, raw, "other")];
      }),
  );
  return {
    title: "Commits per second with the same number in flight: the fleet, and its store alone",
    axis: "commits per second (more is better)",
    shape: "bars",
    lines,
  };
}

interface ComparedPeer extends PeerFigures {
  readonly label: string;
  readonly tone: "own" | "other";
}

/** The fleet is the first of a group; its label names the store. */
const comparedPeers = (newest: readonly GroupOfRun[]): ComparedPeer[] =>
  newest
    .filter(({ group }) => group.name === "peers")
    .flatMap(({ group }) =>
      peersIn(group.rows).map((peer, i) => ({
        ...peer,
        label: i === 0 ? `${peer.name} on ${group.store}` : peer.name,
        tone: i === 0 ? "own" : "other",
      })),
    );

function peerCommitsChart(newest: readonly GroupOfRun[]): Chart {
  return {
    title:
      "Commits per second of the same states by the fleet and by LangGraph's savers, in turns in one run",
    axis: "commits per second (more is better)",
    shape: "bars",
    lines: comparedPeers(newest).map(({ label, perSecond, tone }) => ({
      label,
      text: `${formatNumber(perSecond)}/s`,
      dots: [{ value: perSecond, tone }],
    })),
  };
}

function peerTimesChart(newest: readonly GroupOfRun[], of: "write" | "latest", title: string): Chart {
  return {
    title,
    axis: "ms (logarithmic; less is better)",
    shape: "dots",
    lines: comparedPeers(newest).map(({ label, tone, [of]: { p50, p99 } }) => ({
      label,
      text: `${formatNumber(p50)} and ${formatNumber(p99)} ms`,
      dots: [
        { value: p50, tone },
        { value: p99, tone, hollow: true },
      ],
    })),
    legend: ["p50", "p99"],
  };
}

/** How much of its limit a figure takes, %; undefined: it has no limit, was not judged, or is a count that must be zero. */
export function shareOfLimit({ value, required, met }: Row): number | undefined {
  if (value === null || required === null || value <= 0 || met === UNJUDGED) return undefined;
  return 100 * ("below" in required ? value / required.below : required.at_least / value);
}

const boundText = (bound: Bound): string =>
  "below" in bound ? `limit ${formatNumber(bound.below)}` : `at least ${formatNumber(bound.at_least)}`;

function targetsChart(newest: readonly GroupOfRun[]): Chart {
  const lines = newest.flatMap(({ group }) =>
    group.rows.flatMap((row): ChartLine[] => {
      const share = shareOfLimit(row);
      if (share === undefined || row.required === null) return [];
      const text = `${formatNumber(row.value)} ${row.unit}, ${boundText(row.required)}`;
      const tone = row.met === "required missed" ? "missed" : "own";
      const store = group.store === "LMDB" ? "" : `, ${group.store}`;
      return [{ label: `${group.name}${store}: ${row.what}`, text, dots: [{ value: share, tone }] }];
    }),
  );
  return {
    title: "Every judged figure with a required limit, as a share of that limit",
    axis: "share of the limit, % (logarithmic; smaller is better)",
    shape: "dots",
    lines,
    ...(lines.length > 0 && { limit: { value: 100, label: "limit" } }),
  };
}
