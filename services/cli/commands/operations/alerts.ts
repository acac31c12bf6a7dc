// `fleet alerts`: lists, shows and acknowledges alerts.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { SEVERITIES, type Severity } from "../../../../shared/protocol/severity.ts";
import type { FleetClient, Task } from "../../../../shared/sdk/sdk.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { untilInterrupted } from "../../runtime/sigint.ts";

interface AlertFilter {
  readonly task?: string;
  readonly severity?: Severity;
}

interface ListFlags extends AlertFilter {
  readonly all?: boolean;
  readonly follow?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addAlerts(program: Command, action: ActionFactory): void {
  const group = program.command("alerts").description("List, show and acknowledge alerts.");
  addList(group, action);
  const showCommand = group
    .command("show")
    .description("Show one alert: its cause, the next step, and whether it is acknowledged.")
    .argument("<alert>", "the id of the alert, from `alerts list`")
    .action(action(show));
  withExamples(showCommand, (fleet) => ({
    "The next step": `${fleet} alerts show default/auth/17`,
    "The alert as it was published": `${fleet} alerts show default/auth/17 --json | jq .alert`,
  }));
  const ackCommand = group
    .command("ack")
    .summary("Acknowledge alerts.")
    .description(
      "Acknowledge alerts: they leave the list of open alerts. The first acknowledgement of an alert counts.",
    )
    .argument("<alert...>", `the ids of the alerts, at most ${LIMITS.alert_acks_count_max} at once`)
    .option("--note <text>", "the measures taken")
    .action(action(acknowledge));
  withExamples(ackCommand, (fleet) => ({
    "Acknowledge one alert": `${fleet} alerts ack default/auth/17 --note "starting a qa agent"`,
    "Acknowledge all warnings":
      `${fleet} alerts list --severity warning --json | jq -r '.alerts[].alert.id' |\n` +
      `    xargs -r ${fleet} alerts ack`,
  }));
}

function addList(group: Command, action: ActionFactory): void {
  const listCommand = group
    .command("list")
    .summary("List open alerts.")
    .description(
      "List open alerts, newest first. An alert is open until an operator acknowledges it or its cause is gone. Alerts are kept for 30 days.",
    )
    .option("-t, --task <id>", "only those of this task")
    .addOption(new Option("-s, --severity <severity>", "only those of this severity").choices(SEVERITIES))
    .option("-a, --all", "also acknowledged and resolved alerts")
    .addOption(limitOption(LIMITS.alerts_limit_default, LIMITS.alerts_limit_max))
    .addOption(new Option("--cursor <cursor>", CURSOR).conflicts("follow"))
    .addOption(
      new Option("-f, --follow", "print new alerts as they arrive, until Ctrl-C").conflicts(["all", "limit"]),
    )
    .action(action(list));
  withExamples(listCommand, (fleet) => ({
    "Open alerts": `${fleet} alerts list`,
    "All critical alerts of a task": `${fleet} alerts list --all --severity critical --task auth`,
    "New alerts, for another program": `${fleet} alerts list --follow --json | jq -c '{id, type, data}'`,
  }));
}

async function list(session: Session, flags: ListFlags): Promise<void> {
  const client = await session.client();
  if (flags.follow) return follow(session, client, flags);
  const { task, severity, all, limit, cursor } = flags;
  const page = await client.admin.listAlerts({
    ...session.deadline,
    ...(task !== undefined && { taskId: task }),
    ...(severity !== undefined && { severity }),
    ...(all !== true && { acknowledged: false, resolved: false }),
    ...(limit !== undefined && { limit }),
    ...(cursor !== undefined && { cursor }),
  });
  const { renderAlerts } = await import("../../rendering/operations/alerts.ts");
  const text = { alerts: page.alerts, all: all === true, next: nextPage(session, page.cursor) };
  await session.show(page, () => renderAlerts({ ...text, fleet: session.programName }, session.view));
}

async function follow(session: Session, client: FleetClient, { task, severity }: AlertFilter): Promise<void> {
  const { renderAlertLine } = await import("../../rendering/operations/alerts.ts");
  const interrupted = untilInterrupted();
  const stop = await client.admin.onAlert(
    (alert) => session.line(alert, () => renderAlertLine(alert, session.programName, session.view)),
    { taskId: task, severity },
  );
  // Printed for programs as well: they receive every alert from here on.
  session.notice(
    `Following ${severity ?? "all"} alerts${task === undefined ? "" : ` of task ${task}`}; Ctrl-C ends.`,
  );
  await interrupted;
  await stop();
}

async function show(session: Session, id: string): Promise<void> {
  const client = await session.client();
  const found = await client.admin.alert(id, session.deadline);
  if (found === null) {
    const { FleetError } = await import("../../../../shared/protocol/errors.ts");
    throw new FleetError("NOT_FOUND", "there is no such alert", { details: { alert_ids: [id] } });
  }
  // The alert describes the past. It is shown even if the current state of the task cannot be read.
  const task = await client.getTask(found.alert.subject, session.deadline).catch(() => null);
  const text = { ...found, state: task?.state ?? null, newer: await newerAlert(task) };
  const { renderAlert } = await import("../../rendering/operations/alerts.ts");
  await session.show(found, () => renderAlert(text, session.programName, session.view));
}

/** The id of the alert for the current block of the task; null if the task is not blocked. */
async function newerAlert(task: Task | null): Promise<string | null> {
  if (task?.blocked?.alert_seq == null) return null;
  const { alertId } = await import("../../../../shared/protocol/alerts.ts");
  const { tenant, task_id, blocked } = task;
  return alertId({ tenant, task: task_id, occasion: String(blocked.alert_seq) });
}

async function acknowledge(
  session: Session,
  ids: readonly string[],
  { note }: { readonly note?: string },
): Promise<void> {
  const client = await session.client();
  const done = await client.admin.acknowledgeAlert(ids, { ...session.deadline, note });
  const { renderAcknowledged } = await import("../../rendering/operations/alerts.ts");
  await session.show(done, () => renderAcknowledged(done, session.view));
}
