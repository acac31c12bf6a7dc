/**
 * Alerts for operators: the alerts from their stream, and from the store which of them are acknowledged or
 * resolved. A tenant sees and acknowledges only its own, by the tenant in the subject.
 */

import type { StoredBody, StreamState, StreamView } from "../../shared/bus/bus.ts";
import { decodeBody } from "../../shared/integrity/wire.ts";
import type { TaskRecord } from "../../shared/lifecycle/task.ts";
import type { AlertPage, AlertState } from "../../shared/protocol/alert-queries.ts";
import { parseAlertId, type ReceivedAlert, readAlert } from "../../shared/protocol/alerts.ts";
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import { groupBy } from "../../shared/protocol/group-by.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { QueryParams, QueryResults } from "../../shared/protocol/queries.ts";
import { CONTENT_TYPES, STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Task } from "../../shared/protocol/task.ts";
import { openCursor, sealCursor } from "../../shared/records/kv/cursor.ts";
import { Transactions } from "../../shared/records/kv/transactions.ts";
import { acknowledgeAlerts, readAcks } from "../../shared/records/task/alert-acks.ts";
import { readHeads } from "../../shared/records/task/task-list.ts";
import { viewOf } from "../../shared/records/task/task-view.ts";
import type { DiskSpace } from "../../shared/runtime/disk-space.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { type Evidence, evidenceOf, isResolved } from "./alert-resolution.ts";
import type { ReaderContext } from "./context.ts";

/** The number of messages that are read from the stream at once. */
const SLICE = 100;
const ALERTED_STREAMS: readonly string[] = [STREAMS.dead, STREAMS.queue];

export interface AlertQueries {
  list(tenant: string, query: QueryParams<"alerts">): Promise<AlertPage>;
  show(tenant: string, id: string): Promise<AlertState>;
  acknowledge(
    tenant: string,
    caller: string,
    query: QueryParams<"alert_ack">,
  ): Promise<QueryResults["alert_ack"]>;
}

export function createAlertQueries({ bus, store, clock, log, disk }: ReaderContext): AlertQueries {
  const alerts: Alerts = {
    view: bus.stream(STREAMS.alerts),
    streams: new Map(ALERTED_STREAMS.map((name) => [name, bus.stream(name)])),
    log,
    disk,
    transactions: new Transactions(store),
  };

  return {
    list: (tenant, query) => list(alerts, tenant, query),

    async show(tenant, id) {
      const [found] = await withStates(alerts, tenant, await requireAll(alerts, tenant, [id]));
      return found === undefined ? missing([id]) : stateOf(found);
    },

    async acknowledge(tenant, by, { alert_ids, note = null }) {
      const ids = [...new Set(alert_ids)];
      await requireAll(alerts, tenant, ids);
      const wanted = { tenant, alerts: ids, by, note, nowMs: clock.now() };
      const { value } = await alerts.transactions.transact("alert_ack", (tx) =>
        acknowledgeAlerts(tx, wanted),
      );
      // Without the note, which may name a person: the record of the alert has it.
      for (const { alert_id, already } of value) {
        if (!already) log.info({ tenant, alert_id, caller: by }, "alert acknowledged");
      }
      return { alerts: value };
    },
  };
}

interface Alerts {
  readonly view: StreamView;
  /** The streams that have alerts, by name. */
  readonly streams: ReadonlyMap<string, StreamView>;
  readonly transactions: Transactions;
  readonly log: Logger;
  readonly disk: DiskSpace;
}

/** A page ends after `limit` alerts, or after the limit of scanned ones. Then the cursor continues. */
async function list(alerts: Alerts, tenant: string, query: QueryParams<"alerts">): Promise<AlertPage> {
  const { task_id: task, severity, type, acknowledged, resolved, limit, cursor } = query;
  const kind = ["alerts", tenant, task, severity, type, acknowledged, resolved].join("/");
  const filter = SUBJECTS.alertsOf({ tenant, severity, task });
  const found = new Map<string, AlertState>();
  let before = cursor === undefined ? undefined : positionOf(openCursor(kind, cursor));
  for (let seen = 0; ; seen += SLICE) {
    if (seen >= LIMITS.alerts_scan_count_max) return page(found, sealCursor(kind, String(before)));
    const slice = await alerts.view.newest({ filter, before, limit: SLICE });
    const states = await withStates(alerts, tenant, readable(slice, alerts.log));
    for (const state of states) {
      before = state.seq;
      // A copy from after the stream's duplicate window.
      if (found.has(state.alert.id) || (type !== undefined && state.alert.type !== type)) continue;
      if (acknowledged !== undefined && (state.acknowledgement !== null) !== acknowledged) continue;
      if (resolved !== undefined && state.resolved !== resolved) continue;
      if (found.size === limit) return page(found, sealCursor(kind, String(before + 1)));
      found.set(state.alert.id, stateOf(state));
    }
    if (slice.length < SLICE) return page(found);
    before = slice.at(-1)?.seq;
  }
}

const stateOf = ({ alert, acknowledgement, resolved }: AlertState): AlertState => ({
  alert,
  acknowledgement,
  resolved,
});

function page(found: ReadonlyMap<string, AlertState>, cursor?: string): AlertPage {
  return { alerts: [...found.values()], ...(cursor !== undefined && { cursor }) };
}

function positionOf(text: string): number {
  const position = Number(text);
  if (!Number.isSafeInteger(position))
    throw invalid("cursor", "the cursor of this query's last page, unchanged");
  return position;
}

interface StoredAlert {
  readonly seq: number;
  readonly alert: ReceivedAlert;
}

/** Leaves out messages that no service of Fleet can have written, because no operator could act on them. */
function readable(messages: readonly StoredBody[], log: Logger): StoredAlert[] {
  return messages.flatMap(({ seq, subject, body }) => {
    try {
      if (body.length > LIMITS.alert_bytes_max) throw invalid("", `at most ${LIMITS.alert_bytes_max} bytes`);
      const alert = readAlert(decodeBody(body, CONTENT_TYPES.json));
      const { tenant, severity, subject: task } = alert;
      if (SUBJECTS.alert(tenant, severity, task) !== subject)
        throw invalid("subject", "the subject of its message");
      return [{ seq, alert }];
    } catch (error) {
      log.warn({ error, seq, subject }, "message is not an alert");
      return [];
    }
  });
}

async function withStates<A extends { readonly alert: ReceivedAlert }>(
  { streams, transactions, disk }: Alerts,
  tenant: string,
  found: readonly A[],
): Promise<(A & AlertState)[]> {
  if (found.length === 0) return [];
  const ids = found.map(({ alert }) => alert.id);
  const needing = (evidence: keyof Evidence) => found.filter(({ alert }) => evidenceOf(alert) === evidence);
  const tasks = [...new Set(needing("head").map(({ alert }) => alert.subject))];
  const [acks, heads] = await transactions.read("alert_states", (reader) =>
    Promise.all([readAcks(reader, tenant, ids), readHeads(reader, tenant, tasks)]),
  );
  const states = new Map<string, StreamState>();
  for (const name of new Set(needing("stream").map(({ alert }) => streamOf(alert)))) {
    const state = await streams.get(name)?.state();
    if (state !== undefined) states.set(name, state);
  }
  const headOf = new Map(tasks.map((task, i) => [task, heads[i] ?? null]));
  return found.map((one, i) => ({
    ...one,
    acknowledgement: acks[i] ?? null,
    resolved: isResolved(one.alert, {
      head: viewIn(headOf, one.alert.subject),
      stream: states.get(streamOf(one.alert)) ?? null,
      disks: disk.disks(),
    }),
  }));
}

/** The stream that an alert is about. Empty: none. */
function streamOf({ data }: ReceivedAlert): string {
  return (data as { stream?: string } | null)?.stream ?? "";
}

/** The alerts with these ids, found by the tasks in the ids. Throws NOT_FOUND with the unknown ids. */
async function requireAll(alerts: Alerts, tenant: string, ids: readonly string[]): Promise<StoredAlert[]> {
  const tasks = groupBy(
    ids.filter((id) => parseAlertId(id).tenant === tenant),
    (id) => parseAlertId(id).task,
  );
  const found = new Map<string, StoredAlert>();
  for (const [task, wanted] of tasks) {
    for (const one of await findIn(alerts, SUBJECTS.alertsOf({ tenant, task }), new Set(wanted)))
      found.set(one.alert.id, one);
  }
  const unknown = ids.filter((id) => !found.has(id));
  return unknown.length > 0 ? missing(unknown) : [...found.values()];
}

async function findIn(
  { view, log }: Alerts,
  filter: string,
  wanted: ReadonlySet<string>,
): Promise<StoredAlert[]> {
  const found = new Map<string, StoredAlert>();
  let before: number | undefined;
  for (let seen = 0; seen < LIMITS.alerts_scan_count_max; seen += SLICE) {
    const slice = await view.newest({ filter, before, limit: SLICE });
    for (const one of readable(slice, log)) if (wanted.has(one.alert.id)) found.set(one.alert.id, one);
    if (slice.length < SLICE || found.size === wanted.size) break;
    before = slice.at(-1)?.seq;
  }
  return [...found.values()];
}

function missing(ids: readonly string[]): never {
  throw new FleetError("NOT_FOUND", "there is no such alert", { details: { alert_ids: ids } });
}

function viewIn(heads: ReadonlyMap<string, TaskRecord | null>, task: string): Task | null {
  const head = heads.get(task) ?? null;
  return head && viewOf(head);
}
