// Alerts for operators: the cause and the next step.

import type {
  AcknowledgedAlerts,
  Acknowledgement,
  AlertState,
} from "../../../../shared/protocol/alert-queries.ts";
import { alertText } from "../../../../shared/protocol/alert-text.ts";
import type { ReceivedAlert } from "../../../../shared/protocol/alerts.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import { objectOf } from "../../input/checkpoint/checkpoint.ts";
import { field } from "../terminal/fields.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain, principalText, short } from "../terminal/text.ts";
import { ago, brieflyAgo, exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const COLOR = { critical: "red", warning: "yellow" } as const satisfies Record<
  ReceivedAlert["severity"],
  string
>;

const severityText = ({ severity }: ReceivedAlert, { colors }: View): string =>
  colors[COLOR[severity]](severity);

export interface AlertTable {
  readonly alerts: readonly AlertState[];
  /** Whether acknowledged and resolved alerts are included. */
  readonly all: boolean;
  /** The command for the next page; undefined if this is the last one. */
  readonly next: string | undefined;
  /** The name of the program in printed commands. */
  readonly fleet: string;
}

/** In the order of the heads below. */
const FIT = [
  { least: 20, names: true },
  { brief: brieflyAgo },
  undefined,
  undefined,
  { leaves: 1 },
  { least: 24 },
] as const;
const FIT_OPEN = FIT.filter((_, column) => column !== 3 && column !== 4);

export function renderAlerts({ alerts, all, next, fleet }: AlertTable, view: View): string {
  if (alerts.length === 0 && next === undefined) {
    return all ? "No alerts." : `No open alerts; \`${fleet} alerts list --all\` shows the others.`;
  }
  const heads = ["ID", "WHEN", "SEVERITY", ...(all ? ["RESOLVED", "ACKNOWLEDGED BY"] : []), "WHAT"];
  const rows = alerts.map(({ alert, acknowledgement, resolved }) => [
    plain(alert.id),
    ago(alert.time, view.now),
    severityText(alert, view),
    ...(all
      ? [
          resolved ? view.colors.green("yes") : "no",
          acknowledgement === null ? view.colors.yellow("-") : principalText(acknowledgement.by),
        ]
      : []),
    plain(alertText(alert).what),
  ]);
  return [
    ...tableLines(rows, { heads, view, fit: all ? FIT : FIT_OPEN }),
    "",
    ...pageEnd(counted(alerts.length, "alert"), next, view),
    `Next: \`${fleet} alerts show <id>\`. Acknowledge: \`${fleet} alerts ack <id>\`.`,
  ].join("\n");
}

export interface AlertDetails extends AlertState {
  /** The current state of its task; null: unknown. */
  readonly state: Task["state"] | null;
  /** The alert of the current block of the task; null: the task is not blocked. */
  readonly newer: string | null;
}

export function renderAlert(
  { alert, acknowledgement, resolved, state, newer }: AlertDetails,
  fleet: string,
  view: View,
): string {
  const { what, todo, command, acknowledge } = alertText(alert, fleet);
  const facts = Object.entries(objectOf(alert.data)).filter(([, value]) => value !== null);
  return [
    field("Alert", view.colors.bold(plain(alert.id)), view),
    field("Severity", severityText(alert, view), view),
    field("Task", `${plain(alert.subject)}${state === null ? "" : `, now ${state}`}`, view),
    field("When", exactly(plain(alert.time), view.now), view),
    field("Type", plain(alert.type), view),
    ...facts
      .filter(([name]) => name !== "taskId")
      .map(([name, value]) => field(`  ${plain(name)}`, short(value), view)),
    field("Acknowledged", acknowledgedText(acknowledgement, view), view),
    "",
    plain(what),
    ...(resolved
      ? [resolvedText(newer, fleet, view)]
      : [plain(todo), `  ${view.colors.cyan(plain(command))}`]),
    ...(acknowledgement === null && !resolved ? ["", `Acknowledge it: \`${plain(acknowledge)}\``] : []),
  ].join("\n");
}

function resolvedText(newer: string | null, fleet: string, { colors }: View): string {
  return newer === null
    ? colors.green("Resolved: its cause is gone, and there is nothing left to do.")
    : `${colors.yellow("Resolved, but the task is blocked again:")} \`${plain(`${fleet} alerts show ${newer}`)}\` shows the next step.`;
}

function acknowledgedText(acknowledgement: Acknowledgement | null, view: View): string {
  if (acknowledgement === null) return view.colors.yellow("no");
  const { by, at, note } = acknowledgement;
  return `by ${principalText(by)}, ${exactly(plain(at), view.now)}${note === null ? "" : `: ${plain(note)}`}`;
}

/** One line for an alert that arrives. */
export function renderAlertLine(alert: ReceivedAlert, fleet: string, view: View): string {
  const { what, command } = alertText(alert, fleet);
  const severity = severityText(alert, view) + " ".repeat("critical".length - alert.severity.length);
  return `${view.colors.dim(plain(alert.time))}  ${severity}  ${plain(alert.id)}  ${plain(what)} ${view.colors.cyan(plain(command))}`;
}

export function renderAcknowledged({ alerts }: AcknowledgedAlerts, view: View): string {
  return alerts
    .map(({ alert_id, acknowledgement, already }) =>
      already
        ? `${view.colors.yellow("Already acknowledged:")} ${plain(alert_id)}, ${acknowledgedText(acknowledgement, view)}`
        : `${view.colors.green("Acknowledged:")} ${plain(alert_id)}`,
    )
    .join("\n");
}
