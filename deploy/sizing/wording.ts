/** Plans in words: numbers with units, and for each limit its name and the remedy. */
import type { LimitName } from "./formulas.ts";
import type { Plan } from "./plan.ts";

const SEVERAL = "give each fleet some of the tenants";

export const LIMIT_WORDS: Readonly<Record<LimitName, { readonly name: string; readonly remedy: string }>> = {
  watchdog_time: {
    name: "processor time of a watchdog for heartbeats",
    remedy: `send heartbeats less often, with a longer silence timeout; then ${SEVERAL}`,
  },
  watchdog_memory: { name: "memory of a watchdog for its agents", remedy: `${SEVERAL}` },
  index: {
    name: "processor time of the one reader that indexes",
    remedy: `write fewer checkpoints; then ${SEVERAL}`,
  },
  event_stream: {
    name: "processor time of the server that leads the stream of events",
    remedy: `write fewer checkpoints; then ${SEVERAL}`,
  },
  store_processes: { name: "processes of one FoundationDB cluster", remedy: `${SEVERAL}` },
  store_bytes: {
    name: "bytes of one FoundationDB cluster",
    remedy: `keep fewer checkpoints (retention); then ${SEVERAL}`,
  },
};

const STEPS = [
  { from: 1e15, unit: "P" },
  { from: 1e12, unit: "T" },
  { from: 1e9, unit: "G" },
  { from: 1e6, unit: "M" },
  { from: 1e3, unit: "k" },
] as const;

/** Two digits, which is more than the formulas deserve. */
const rounded = (value: number): string => Number(value.toPrecision(2)).toLocaleString("en-US");

export function byteText(bytes: number): string {
  const step = STEPS.find(({ from }) => bytes >= from);
  return step === undefined ? `${rounded(bytes)} B` : `${rounded(bytes / step.from)} ${step.unit}B`;
}

export const countText = (count: number): string => rounded(count);

export const shareText = (use: number): string =>
  `${Number((use * 100).toPrecision(2)).toLocaleString("en-US")} %`;

export const processText = ({ shape, processes }: Plan): string =>
  shape === "one machine"
    ? "`npm start`"
    : `${processes.writers} / ${processes.readers} / ${processes.coordinators} / ${processes.watchdogs}`;

/** The plan as a table of the terminal. */
export function planText(plan: Plan): string {
  const { demand, fleets, rates, storage, processes, first, partitions } = plan;
  const { name, remedy } = LIMIT_WORDS[first.limit];
  const rows: [string, string][] = [
    ["agents", demand.agents.toLocaleString("en-US")],
    ["kept checkpoints", demand.checkpoints.toLocaleString("en-US")],
    ["checkpoints at the peak", `${countText(rates.checkpoints)}/s`],
    ["commits at the peak", `${countText(rates.commits)}/s, ${countText(rates.keys)} keys/s`],
    ["heartbeats", `${countText(rates.heartbeats)}/s`],
    ["store", `${byteText(storage.store)}; with copies and overhead ${byteText(storage.disk)}`],
    ["events in their stream", `${countText(Math.min(storage.eventHours, STREAM_HOURS))} h`],
    ["shape", plan.shape],
    ["fleets", String(fleets)],
    ["of each fleet", ""],
    ["  writers", String(processes.writers)],
    ["  readers", String(processes.readers)],
    ["  coordinators, watchdogs", `${processes.coordinators}, ${processes.watchdogs}`],
    ["  nats-servers", String(processes.nats_servers)],
    [
      "  FoundationDB",
      processes.foundationdb === 0 ? "none: embedded store" : `${processes.foundationdb} processes`,
    ],
    ["  partitions", `${partitions.queue} of the queue, ${partitions.outbox} of the outbox`],
    ["first limit of one fleet", `${name}, used to ${shareText(first.use)}`],
    ["what to do then", remedy],
  ];
  return rows
    .map(([what, value]) => `${what.padEnd(26)}${value}`.trimEnd())
    .join("\n")
    .concat("\n");
}

/** The age at which the stream drops events. */
export const STREAM_HOURS = 7 * 24;
