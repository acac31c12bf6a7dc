// The scrub for operators: the last pass, the progress of the current one, and the damage found.

import type {
  EndedScrubPass,
  ScrubFinding,
  ScrubFindingPage,
  ScrubPass,
  ScrubStatus,
} from "../../../../shared/protocol/scrub.ts";
import { briefIds } from "../terminal/elision.ts";
import { field } from "../terminal/fields.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { bytesText, count, counted, percentText, plain, shownId } from "../terminal/text.ts";
import { ago, brieflyAgo, span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export interface ScrubReport {
  readonly status: ScrubStatus;
  /** The first findings. */
  readonly page: ScrubFindingPage;
  /** The name of the program in printed commands. */
  readonly fleet: string;
}

export function renderScrub({ status, page, fleet }: ScrubReport, view: View): string {
  const { colors } = view;
  const { current, last, requested_pass: requested, total } = status;
  const isUndamaged =
    page.findings.length === 0 && (last?.findings ?? 0) === 0 && (current?.findings ?? 0) === 0;
  const result = last === null ? colors.yellow("never verified") : endedText(last, view);
  return [
    field("Last pass", result, view),
    ...(last === null ? [] : [`  ${tallyText(last)}, ${rateText(last)}`]),
    ...(current === null
      ? []
      : [
          field("Current pass", currentText(current, total.checkpoints, view), view),
          `  ${tallyText(current)}`,
        ]),
    ...(requested === null || requested === current?.pass
      ? []
      : [field("Requested", `pass ${requested}`, view)]),
    field("Scrubber", scrubberText(status, view), view),
    ...(known(status) === 0
      ? []
      : [
          field("Known damage", `${counted(known(status), "version")} in quarantine since earlier`, view),
          whereQuarantined(fleet),
        ]),
    "",
    ...(isUndamaged ? [undamagedText(last, view)] : damageLines(page, status, fleet, view)),
  ].join("\n");
}

function endedText({ pass, ended_at, findings }: EndedScrubPass, { colors, now }: View): string {
  const result = findings === 0 ? colors.green("no damage") : colors.red(counted(findings, "finding"));
  return `${result}, pass ${pass}, ended ${ago(ended_at, now)}`;
}

function currentText({ pass, began_at, checkpoints }: ScrubPass, total: number, { now }: View): string {
  const part = total === 0 ? 100 : Math.min(100, (checkpoints / total) * 100);
  return `pass ${pass}, ${percentText(Math.floor(part))}, began ${ago(began_at, now)}`;
}

function tallyText({ tasks, checkpoints, versions, audit_entries, bytes }: ScrubPass): string {
  return [
    counted(tasks, "task"),
    counted(checkpoints, "checkpoint"),
    counted(versions, "earlier version"),
    counted(audit_entries, "audit entry", "audit entries"),
    bytesText(bytes),
  ].join(", ");
}

function rateText({ began_at, ended_at, bytes }: EndedScrubPass): string {
  const ms = Math.max(1, Date.parse(ended_at) - Date.parse(began_at));
  return `in ${span(ms)} (${bytesText((bytes / ms) * 1_000)}/s)`;
}

function scrubberText({ by, rate_bytes, every_ms }: ScrubStatus, { colors }: View): string {
  const who = by === null ? colors.yellow("no watchdog is running") : plain(by);
  if (rate_bytes === null) return who;
  const when = every_ms === null ? "only on request" : `every ${span(every_ms)}`;
  return `${who}; at most ${bytesText(rate_bytes)}/s, ${when}`;
}

const known = ({ current, last }: ScrubStatus): number => last?.quarantined ?? current?.quarantined ?? 0;

function undamagedText(last: EndedScrubPass | null, { colors }: View): string {
  if (last === null) return "No damage is known, but no pass has ended yet.";
  return colors.green("The last pass found no damage.");
}

function damageLines(page: ScrubFindingPage, status: ScrubStatus, fleet: string, view: View): string[] {
  if (page.findings.length === 0) return ["The findings are in other tenants."];
  const isAll = page.cursor === undefined;
  return [
    ...findingLines(page.findings, view),
    "",
    ...(isAll ? [] : [`More with \`${fleet} scrub findings\`.`]),
    ...(status.current === null
      ? []
      : ["The current pass has not verified every finding again: some may be repaired already."]),
    ADVICE,
  ];
}

const ADVICE =
  "A quarantined checkpoint is passed over: agents continue from the one before it. For any other finding, keep the store as it is and restore the task from a backup.";

const FIT = [
  undefined,
  { least: 12, names: true },
  { id: briefIds, leaves: 1 },
  { brief: brieflyAgo },
  { least: 24 },
] as const;

function findingLines(findings: readonly ScrubFinding[], view: View): string[] {
  const heads = ["KIND", "TASK", "CHECKPOINT", "FOUND", "WHAT"];
  const rows = findings.map((finding) => [
    view.colors.red(finding.kind),
    plain(finding.task_id),
    checkpointText(finding),
    ago(finding.found_at, view.now),
    `${plain(finding.details)}${finding.quarantined ? " (quarantined)" : ""}`,
  ]);
  return tableLines(rows, { heads, view, fit: FIT });
}

function checkpointText({ checkpoint_id: id, version }: ScrubFinding): string {
  if (id === null) return "-";
  return version === null ? shownId(id) : `${shownId(id)} v${count(version)}`;
}

const whereQuarantined = (fleet: string): string =>
  `\`${fleet} checkpoint list --all\` warns of those of this tenant, with their ids. Exports lack them: restore their tasks from a backup.`;

export function renderFindings(
  { page, next, status, fleet }: ScrubReport & { readonly next: string | undefined },
  view: View,
): string {
  if (page.findings.length === 0 && next === undefined) {
    if (known(status) === 0) return "No findings.";
    const count = `No findings. In quarantine since earlier, over all tenants: ${counted(known(status), "version")}.`;
    return [count, whereQuarantined(fleet)].join("\n");
  }
  return [
    ...findingLines(page.findings, view),
    "",
    ...pageEnd(counted(page.findings.length, "finding"), next, view),
    ADVICE,
  ].join("\n");
}

export function renderRequestedPass(
  { current, requested_pass, by }: ScrubStatus,
  fleet: string,
  view: View,
): string {
  const after =
    current === null || current.pass === requested_pass
      ? ""
      : `, after pass ${current.pass}, the current one`;
  return [
    `Requested: pass ${requested_pass}${after}`,
    ...(by === null
      ? [view.colors.yellow("No watchdog is running; the pass starts as soon as one does.")]
      : []),
    `Follow it: \`${fleet} scrub\``,
  ].join("\n");
}
