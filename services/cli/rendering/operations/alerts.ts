// Alerts for people: what happened, and what to do about it.

import type {
  AcknowledgedAlerts,
  Acknowledgement,
  AlertState,
} from "../../../../shared/protocol/alert-queries.ts";
import { alertText } from "../../../../shared/protocol/alert-text.ts";
import type { ReceivedAlert } from "../../../../shared/protocol/alerts.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import { objectOf } from "../../input/checkpoint.ts";
import { field } from "../terminal/fields.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain, short } from "../terminal/text.ts";
import { ago, brieflyAgo, exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

const COLOR = { critical: "red", warning: "yellow" } as const satisfies Record<
  ReceivedAlert["severity"],
  string
>;

const severityText = ({ severity }: ReceivedAlert, { colors }: View): string =>
  colors[COLOR[severity]](severity);

export interface AlertsText {
  readonly alerts: readonly AlertState[];
  /** Whether those that are not open are among them. */
  readonly all: boolean;
  /** The command for the next page, when there is one. */
  readonly next: string | undefined;
  /** How the program is called here. */
  readonly fleet: string;
}

/** As in the heads below. The id is what people copy. */
const FIT = [undefined, { brief: brieflyAgo }, undefined, undefined, { leaves: 1 }, { least: 24 }] as const;
const FIT_OPEN = FIT.filter((_, column) => column !== 3 && column !== 4);

export function renderAlerts({ alerts, all, next, fleet }: AlertsText, view: View): string {
  if (alerts.length === 0 && next === undefined) {
    return all ? "No alerts." : `No alerts are open; \`${fleet} alerts list --all\` shows the others.`;
  }
  const heads = ["ID", "WHEN", "SEVERITY", ...(all ? ["CAUSE", "KNOWN TO"] : []), "WHAT"];
  const rows = alerts.map(({ alert, acknowledgement, resolved }) => [
    plain(alert.id),
    ago(alert.time, view.now),
    severityText(alert, view),
    ...(all
      ? [
          resolved ? view.colors.green("gone") : "-",
          acknowledgement === null ? view.colors.yellow("nobody") : plain(acknowledgement.by),
        ]
      : []),
    plain(alertText(alert).what),
  ]);
  return [
    ...tableLines(rows, { heads, view, fit: all ? FIT : FIT_OPEN }),
    "",
    ...(next === undefined
      ? [`Total: ${counted(alerts.length, "alert")}`]
      : [`${counted(alerts.length, "alert")}; more with:`, `  ${view.colors.cyan(next)}`]),
    `What to do: \`${fleet} alerts show <id>\`. When you know of it: \`${fleet} alerts ack <id>\`.`,
  ].join("\n");
}

export interface AlertShown extends AlertState {
  /** Of its task, as it is now; null: not known. */
  readonly state: Task["state"] | null;
  /** The alert of the block that the task is in; null: it is in none. */
  readonly newer: string | null;
}

export function renderAlert(
  { alert, acknowledgement, resolved, state, newer }: AlertShown,
  fleet: string,
  view: View,
): string {
  const { what, todo, command, acknowledge } = alertText(alert, fleet);
  const facts = Object.entries(objectOf(alert.data)).filter(([, value]) => value !== null);
  return [
    field("Alert", view.colors.bold(plain(alert.id)), view),
    field("Severity", severityText(alert, view), view),
    field("Task", `${plain(alert.subject)}${state === null ? "" : `, ${state} now`}`, view),
    field("When", exactly(plain(alert.time), view.now), view),
    field("Type", plain(alert.type), view),
    ...facts
      .filter(([name]) => name !== "taskId")
      .map(([name, value]) => field(`  ${plain(name)}`, short(value), view)),
    field("Known to", knownTo(acknowledgement, view), view),
    "",
    plain(what),
    ...(resolved ? [overText(newer, fleet, view)] : [plain(todo), `  ${view.colors.cyan(plain(command))}`]),
    ...(acknowledgement === null && !resolved ? ["", `When you know of it: \`${plain(acknowledge)}\``] : []),
  ].join("\n");
}

function overText(newer: string | null, fleet: string, { colors }: View): string {
  return newer === null
    ? colors.green("Its cause is gone: nobody has to do anything about it any more.")
    : `${colors.yellow("The task was blocked anew since:")} \`${plain(`${fleet} alerts show ${newer}`)}\` says what to do.`;
}

function knownTo(acknowledgement: Acknowledgement | null, view: View): string {
  if (acknowledgement === null) return view.colors.yellow("nobody");
  const { by, at, note } = acknowledgement;
  return `${plain(by)}, since ${exactly(plain(at), view.now)}${note === null ? "" : `: ${plain(note)}`}`;
}

/** One alert as it comes. */
export function renderAlertLine(alert: ReceivedAlert, fleet: string, view: View): string {
  const { what, command } = alertText(alert, fleet);
  const severity = severityText(alert, view) + " ".repeat("critical".length - alert.severity.length);
  return `${view.colors.dim(plain(alert.time))}  ${severity}  ${plain(alert.id)}  ${plain(what)} ${view.colors.cyan(plain(command))}`;
}

export function renderAcknowledged({ alerts }: AcknowledgedAlerts, view: View): string {
  return alerts
    .map(({ alert_id, acknowledgement, already }) =>
      already
        ? `${view.colors.yellow("Known already:")} ${plain(alert_id)}, to ${knownTo(acknowledgement, view)}`
        : `${view.colors.green("Acknowledged:")} ${plain(alert_id)}`,
    )
    .join("\n");
}
