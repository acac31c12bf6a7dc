// The live view of a fleet: what needs an operator first, then the tasks, handoffs and agents.

import type { Agent, AgentPage } from "../../../../shared/protocol/agents.ts";
import type { AlertState } from "../../../../shared/protocol/alert-queries.ts";
import type { Handoff } from "../../../../shared/protocol/handoff-record.ts";
import type { FleetStatus } from "../../../../shared/protocol/queries.ts";
import type { ListedTask } from "../../../../shared/protocol/task.ts";
import { renderHandoffs } from "../handoff/handoff.ts";
import { cut } from "../terminal/table.ts";
import { count, counted, plain } from "../terminal/text.ts";
import { span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { renderAgents } from "./agents.ts";
import { renderAlerts } from "./alerts.ts";
import { renderTasks } from "./task-table.ts";

/** One answer of the fleet. Each list may have more entries in the fleet than here. */
export interface FleetPicture {
  /** ISO 8601. */
  readonly at: string;
  readonly status: FleetStatus;
  readonly alerts: readonly AlertState[];
  readonly tasks: readonly ListedTask[];
  readonly handoffs: readonly Handoff[];
  readonly agents: readonly Agent[];
  readonly listening_since: AgentPage["listening_since"];
}

export interface WatchFrame {
  readonly url: string;
  readonly fleet: string;
  /** The lines of the terminal; undefined: as many as needed. */
  readonly height?: number | undefined;
  /** The last line; undefined: none. */
  readonly help?: string | undefined;
  /** Why the fleet gave no newer answer; null: it gave one. */
  readonly problem: string | null;
}

interface Section {
  readonly name: string;
  readonly size: number;
  /** The table of the first entries, with its head. */
  readonly table: (entries: number) => readonly string[];
}

/** A name, a head, an entry, the number of those left out, and an empty line. */
const LINES_LEAST = 5;
const LINES_AROUND = 2;

export function renderWatch(picture: FleetPicture, frame: WatchFrame, view: View): string[] {
  const { height = Number.POSITIVE_INFINITY, help } = frame;
  const above = [headline(picture, frame, view), ...problemLines(picture, frame, view), ""];
  const below = help === undefined ? [] : [view.colors.dim(help)];
  const sections = sectionsOf(picture, frame, view).filter(({ size }) => size > 0);
  const body =
    sections.length === 0
      ? ["No open tasks, handoffs or alerts, and no agents."]
      : fitted(sections, height - above.length - below.length, view);
  const lines = [...above, ...body].slice(0, height - below.length);
  return [...lines, ...below].map((line) => (view.width === undefined ? line : cut(line, view.width)));
}

function headline({ status }: FleetPicture, { url }: WatchFrame, { colors }: View): string {
  const { store, bus, counts } = status;
  const mark = (name: string, ok: boolean) =>
    ok ? `${name} ${colors.green("ok")}` : colors.red(`${name} down`);
  const size = `${counted(counts.tasks, "task")}, ${counted(counts.checkpoints, "checkpoint")}`;
  const title = colors.bold(`Fleet ${plain(status.version)}`);
  return `${title} at ${plain(url)}  ${mark("store", store.ok)}  ${mark("bus", bus.ok)}  ${size}`;
}

function problemLines(
  { at, status }: FleetPicture,
  { problem, fleet }: WatchFrame,
  { colors, now }: View,
): string[] {
  const disks = (status.disks ?? []).filter(({ state }) => state !== "ok").length;
  const findings = (status.findings ?? []).length;
  const troubles = [
    ...(findings > 0 ? [`${counted(findings, "fault")} of the bus`] : []),
    ...(disks > 0 ? [`${counted(disks, "disk")} with little room`] : []),
  ];
  return [
    ...(problem === null
      ? []
      : [colors.red(`No answer since ${span(now - Date.parse(at))}: ${plain(problem)}`)]),
    ...(troubles.length === 0
      ? []
      : [colors.red(`${troubles.join(" and ")}; \`${fleet} status\` names them`)]),
  ];
}

function sectionsOf(picture: FleetPicture, { fleet }: WatchFrame, view: View): Section[] {
  const { alerts, tasks, handoffs, agents, listening_since } = picture;
  const section = <T>(
    name: string,
    entries: readonly T[],
    render: (some: readonly T[]) => string,
  ): Section => ({
    name,
    size: entries.length,
    table: (most) => firstParagraph(render(entries.slice(0, most))),
  });
  const next = undefined;
  return [
    section("Open alerts", alerts, (some) => renderAlerts({ alerts: some, all: false, next, fleet }, view)),
    section("Open tasks", tasks, (some) => renderTasks({ tasks: some, next }, view)),
    section("Open handoffs", handoffs, (some) => renderHandoffs({ handoffs: some, next }, view)),
    section("Agents", agents, (some) => renderAgents({ agents: some, listening_since }, next, view)),
  ];
}

/** The table without the lines below it. */
const firstParagraph = (text: string): string[] => text.split("\n\n", 1)[0]!.split("\n");

/** Shares the lines among the sections: a short one takes what it needs, and the others divide the rest. */
function fitted(sections: readonly Section[], lines: number, view: View): string[] {
  const needs = sections.map(({ size }) => size + LINES_AROUND + 1);
  const shares = needs.map(() => 0);
  let rest = lines;
  const bySize = needs.map((need, place) => ({ need, place })).sort((a, b) => a.need - b.need);
  bySize.forEach(({ need, place }, i) => {
    const share = Math.min(need, Math.max(LINES_LEAST, Math.floor(rest / (bySize.length - i))));
    shares[place] = share;
    rest -= share;
  });
  return sections.flatMap((section, place) => sectionLines(section, shares[place]!, view));
}

function sectionLines({ name, size, table }: Section, lines: number, { colors }: View): string[] {
  const isWhole = lines >= size + LINES_AROUND + 1;
  const shown = isWhole ? size : Math.max(1, lines - LINES_AROUND - 2);
  return [
    colors.cyan(`${name} (${count(size)})`),
    ...table(shown),
    ...(shown < size ? [colors.dim(`… and ${count(size - shown)} more`)] : []),
    "",
  ];
}
