/**
 * The queries that answer facts, and beside some of them short texts of people and agents: reasons of handoffs, recoveries and signatures, details of
 * exits and blocks, notes about alerts, and values that were refused. An answer without such a text has no entry in the access log.
 */
import type { AlertState } from "../../../shared/protocol/alert-queries.ts";
import { parseAlertId } from "../../../shared/protocol/alerts.ts";
import type { EventsPage } from "../../../shared/protocol/event-queries.ts";
import type { EventType } from "../../../shared/protocol/events.ts";
import type { AnsweredOp } from "../../../shared/protocol/operations.ts";
import type { QueryResults } from "../../../shared/protocol/queries.ts";
import type { DeadLetter } from "../../../shared/protocol/queue-queries.ts";
import type { Task } from "../../../shared/protocol/task.ts";
import { type ContentReads, several } from "./shown.ts";

const hasText = ({ recovery, blocked }: Task): boolean =>
  [blocked?.details, recovery?.failure?.details, recovery?.choice?.reason].some((text) => Boolean(text));

const ofTasks = (tasks: readonly Task[]) => several(tasks.filter(hasText).map(({ task_id }) => task_id));

/** The scrub words its own details. */
function hasDetails({ type, data }: AlertState["alert"]): boolean {
  const { details } = (data ?? {}) as { readonly details?: unknown };
  return type !== "SCRUB_FOUND" && typeof details === "string" && details !== "";
}

const hasTexts = ({ alert, acknowledgement }: AlertState): boolean =>
  hasDetails(alert) || Boolean(acknowledgement?.note);

const ofAlerts = (alerts: readonly AlertState[]) =>
  several(alerts.filter(hasTexts).map(({ alert }) => alert.subject));

/** The reasons of other events are codes. */
const REASONED: ReadonlySet<string> = new Set<EventType>([
  "AGENT_HANDOFF",
  "RECOVERY_INITIATED",
  "RECOVERY_REQUESTED",
]);

function isReasoned({ event: { type, data } }: EventsPage["events"][number]): boolean {
  return REASONED.has(type) && Boolean((data as { readonly reason?: string | null }).reason);
}

/** The error can repeat a part of a value that was refused. */
const hasValue = ({ error }: DeadLetter): boolean => (error.fields ?? []).some(({ got }) => Boolean(got));

/** In the place of a text that the access log must have first, and cannot. */
const WITHHELD = "withheld, because the access log cannot be written";

function withheldAlert(state: AlertState): AlertState {
  const { alert, acknowledgement } = state;
  return {
    ...state,
    alert: hasDetails(alert)
      ? ({ ...alert, data: { ...(alert.data as object), details: WITHHELD } } as AlertState["alert"])
      : alert,
    acknowledgement:
      acknowledgement === null || !acknowledgement.note
        ? acknowledgement
        : { ...acknowledgement, note: WITHHELD },
  };
}

/**
 * The answer without its texts. undefined: it must not leave. Operators need their alerts most while the store accepts nothing, and those say
 * what to do without the texts.
 */
export function withoutTexts<Op extends AnsweredOp>(
  op: Op,
  result: QueryResults[Op],
): QueryResults[Op] | undefined {
  const withhold: { readonly [O in AnsweredOp]?: (result: QueryResults[O]) => QueryResults[O] } = {
    alert: withheldAlert,
    alerts: (page) => ({ ...page, alerts: page.alerts.map(withheldAlert) }),
  };
  return withhold[op]?.(result);
}

export const TEXT_READS: ContentReads = {
  task: (_query, { task }) => ofTasks([task]),
  tasks: (_query, { tasks }) => ofTasks(tasks),
  // The entries of the trail have no free text.
  audit: (_query, { task }) => ofTasks([task]),
  recoveries: (_query, { tasks }) => ofTasks(tasks),
  alert: (_query, state) => ofAlerts([state]),
  alerts: (_query, { alerts }) => ofAlerts(alerts),
  // The note of the one who was first.
  alert_ack: (_query, { alerts }) =>
    several(
      alerts
        .filter(({ already, acknowledgement }) => already && Boolean(acknowledgement.note))
        .map(({ alert_id }) => parseAlertId(alert_id).task),
    ),
  events: (_query, { events }) => several(events.filter(isReasoned).map(({ event }) => event.subject)),
  signatures: ({ task_id }, { signatures }) =>
    several(signatures.filter(({ reason }) => Boolean(reason)).map(() => task_id)),
  dead_list: (_query, { letters }) =>
    several(letters.filter(hasValue).map(({ task_id }) => task_id ?? "unknown")),
};
