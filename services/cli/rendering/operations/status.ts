// The state of the fleet on one screen.

import type { DiskStatus, StreamFinding } from "../../../../shared/protocol/fleet-health.ts";
import type { FleetStatus, IndexStatus } from "../../../../shared/protocol/queries.ts";
import { tableLines } from "../terminal/table.ts";
import { bytesText, count, counted, plain } from "../terminal/text.ts";
import { span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

/** The number of open alerts; `more`: there are more than the answer could hold. */
export interface OpenAlerts {
  readonly open: number;
  readonly more: boolean;
}

/** `by`: the id of a running watchdog; null: none runs. */
export interface RunningWatchdog {
  readonly by: string | null;
}

export function renderStatus(
  status: FleetStatus & {
    readonly alerts?: OpenAlerts;
    readonly watchdog?: RunningWatchdog;
    /** The address of the HTTP API. */
    readonly http_api?: string;
  },
  { url, fleet }: { readonly url: string; readonly fleet: string },
  view: View,
): string {
  const { colors } = view;
  const mark = (ok: boolean) => (ok ? colors.green("ok") : colors.red("down"));
  const { store, bus, index, outbox, counts } = status;
  const waiting = outbox.depth === 0 ? "" : `, the oldest for ${span(outbox.oldest_ms)}`;
  const rows = [
    ["store", mark(store.ok), plain(`${store.engine}  ${store.detail}`.trim())],
    ["bus", mark(bus.ok), plain(`nats-server ${bus.server_version}  ${bus.detail}`.trim())],
    ...(status.findings ?? []).map((finding) => findingRow(finding, view)),
    ...(status.disks ?? []).map((disk) => diskRow(disk, view)),
    ["index", indexMark(index, view), indexText(index)],
    ["outbox", colors.green("ok"), `${counted(outbox.depth, "event")} to publish${waiting}`],
    ...(status.alerts === undefined ? [] : [alertsRow(status.alerts, fleet, view)]),
    ...(status.watchdog === undefined ? [] : [watchdogRow(status.watchdog, view)]),
    ...(status.http_api === undefined ? [] : [["HTTP API", "", plain(`${status.http_api}/api/docs`)]]),
  ];
  // The reason for a failure must never be cut.
  const fit =
    store.ok && bus.ok && (status.findings ?? []).length === 0 ? [undefined, undefined, { least: 20 }] : [];
  return [
    `Fleet ${plain(status.version)} at ${url}, up for ${span(status.uptime_ms)}`,
    "",
    ...tableLines(rows, { view, fit }),
    "",
    `${counted(counts.tasks, "task")}, ${counted(counts.checkpoints, "checkpoint")}, ${counted(counts.events, "event")}`,
  ].join("\n");
}

/** The next step for the operator, by kind. */
export const FINDING_STEPS: Readonly<Record<StreamFinding["kind"], string>> = {
  missing: "the services create it again; if it stays, see their log",
  altered: "the services restore it; if it stays, back up the stream and remove it",
  paused: "the services resume it; if it stays, run: nats consumer resume",
  sealed: "back up the stream and remove it; the services create it again",
  nearly_full: "see the runbook: a stream is nearly full",
  full: "see the runbook: a stream is nearly full",
};

function findingRow({ stream, consumer, kind, detail, blocks }: StreamFinding, { colors }: View): string[] {
  const word = kind.replace("_", " ");
  const name = consumer === null ? stream : `${consumer} of ${stream}`;
  return [
    consumer === null ? "stream" : "consumer",
    blocks ? colors.red(word) : colors.yellow(word),
    `${plain(name)}: ${plain(detail)}; ${FINDING_STEPS[kind] ?? "see the log of the services"}`,
  ];
}

function diskRow(
  { disk_of, free_bytes, total_bytes, min_free_bytes, state }: DiskStatus,
  { colors }: View,
): string[] {
  const mark = { ok: colors.green, low: colors.yellow, full: colors.red }[state] ?? colors.yellow;
  const limit = `commands are refused below ${bytesText(min_free_bytes)}`;
  const size = `${bytesText(free_bytes)} free of ${bytesText(total_bytes)}`;
  return ["disk", mark(state), `${disk_of.join(" and ")}: ${size}${state === "ok" ? "" : `; ${limit}`}`];
}

function alertsRow({ open, more }: OpenAlerts, fleet: string, { colors }: View): string[] {
  if (open === 0 && !more) return ["alerts", colors.green("ok"), "none open"];
  const many = more ? `${count(open)} or more` : count(open);
  return ["alerts", colors.yellow("open"), `${many}: ${fleet} alerts list`];
}

function watchdogRow({ by }: RunningWatchdog, { colors }: View): string[] {
  if (by !== null) return ["watchdog", colors.green("ok"), plain(by)];
  return ["watchdog", colors.yellow("none"), "failed agents are not noticed until one runs"];
}

export function renderIndex(index: IndexStatus, view: View): string {
  return `Search index: ${indexMark(index, view)}, ${indexText(index)}`;
}

function indexMark({ state }: IndexStatus, { colors }: View): string {
  return state === "ready" ? colors.green("ready") : colors.yellow("rebuilding");
}

function indexText(index: IndexStatus): string {
  const behind = index.behind === 0 ? "up to date" : `${counted(index.behind, "commit")} behind`;
  return index.state === "ready"
    ? `${counted(index.indexed, "checkpoint")}, ${behind}`
    : `${count(index.indexed)} of ${counted(index.total, "checkpoint")}`;
}
