// `fleet alerts`: what a person has to look at, and saying that one knows.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { SEVERITIES, type Severity } from "../../../../shared/protocol/severity.ts";
import type { FleetClient, Task } from "../../../../shared/sdk/sdk.ts";
import { limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { untilInterrupted } from "../../runtime/sigint.ts";

interface Which {
  readonly task?: string;
  readonly severity?: Severity;
}

interface ListFlags extends Which {
  readonly all?: boolean;
  readonly follow?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addAlerts(program: Command, action: ActionFactory): void {
  const group = program.command("alerts").description("Look at alerts, and say that you know of them.");
  addList(group, action);
  const showing = group
    .command("show")
    .description("Show one alert: what happened, what to do, and who knows of it.")
    .argument("<alert>", "the alert, as `alerts list` shows it")
    .action(action(show));
  withExamples(showing, (fleet) => ({
    "What to do": `${fleet} alerts show default/auth/17`,
    "What it says, in full": `${fleet} alerts show default/auth/17 --json | jq .alert`,
  }));
  const acknowledging = group
    .command("ack")
    .summary("Say that you know of alerts.")
    .description(
      "Say that you know of alerts: they leave the list of those that somebody has to look at. The first one who says so counts.",
    )
    .argument("<alert...>", `the alerts, at most ${LIMITS.alert_acks_count_max} at once`)
    .option("--note <text>", "what is being done about them")
    .action(action(acknowledge));
  withExamples(acknowledging, (fleet) => ({
    "I know of it": `${fleet} alerts ack default/auth/17 --note "starting a qa agent"`,
    "Of all warnings":
      `${fleet} alerts list --severity warning --json | jq -r '.alerts[].alert.id' |\n` +
      `    xargs -r ${fleet} alerts ack`,
  }));
}

function addList(group: Command, action: ActionFactory): void {
  const listing = group
    .command("list")
    .summary("List alerts that are open.")
    .description(
      "List the alerts that are open, newest first: nobody has acknowledged them, and what they tell of is not over. They are kept for 30 days.",
    )
    .option("-t, --task <id>", "of this task")
    .addOption(new Option("-s, --severity <severity>", "of this severity").choices(SEVERITIES))
    .option("-a, --all", "also those that somebody has acknowledged, or whose cause is gone")
    .addOption(limitOption(LIMITS.alerts_limit_default, LIMITS.alerts_limit_max))
    .addOption(new Option("--cursor <cursor>", "go on after an earlier page").conflicts("follow"))
    .addOption(
      new Option("-f, --follow", "instead, print alerts as they come, until Ctrl-C").conflicts([
        "all",
        "limit",
      ]),
    )
    .action(action(list));
  withExamples(listing, (fleet) => ({
    "What needs somebody": `${fleet} alerts list`,
    "What was critical for a task": `${fleet} alerts list --all --severity critical --task auth`,
    "For another program": `${fleet} alerts list --follow --json | jq -c '{id, type, data}'`,
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

async function follow(session: Session, client: FleetClient, { task, severity }: Which): Promise<void> {
  const { renderAlertLine } = await import("../../rendering/operations/alerts.ts");
  const interrupted = untilInterrupted();
  const stop = await client.admin.onAlert(
    (alert) => session.line(alert, () => renderAlertLine(alert, session.programName, session.view)),
    { taskId: task, severity },
  );
  // Also told to a program: from here on it misses nothing.
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
  // What the alert says was so then; it is shown also when nobody can say how it is now.
  const task = await client.getTask(found.alert.subject, session.deadline).catch(() => null);
  const text = { ...found, state: task?.state ?? null, newer: await newerAlert(task) };
  const { renderAlert } = await import("../../rendering/operations/alerts.ts");
  await session.show(found, () => renderAlert(text, session.programName, session.view));
}

/** The alert of the block that the task is in. */
async function newerAlert(task: Task | null): Promise<string | null> {
  if (task?.state !== "blocked" || task.block === null) return null;
  const { alertId } = await import("../../../../shared/protocol/alerts.ts");
  const { tenant, task_id, block } = task;
  return alertId({ tenant, task: task_id, occasion: String(block.seq) });
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
