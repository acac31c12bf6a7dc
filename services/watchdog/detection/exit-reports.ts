/**
 * What others say about the end of agents: exit reports, and handoffs that came to nothing after somebody had them. Out of durable
 * consumers that all watchdogs share, so each is seen to by one of them, at least once; the store notes it once.
 */
import type { Bus, DurableMessage } from "../../../shared/bus/bus.ts";
import { startConsumers } from "../../../shared/bus/consume/background-consumer.ts";
import { decodeBody } from "../../../shared/integrity/wire.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import { type FleetEvent, readEvent } from "../../../shared/protocol/events.ts";
import { type ExitReport, exitReportSchema } from "../../../shared/protocol/exit-report.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import {
  CONTENT_TYPES,
  HEADERS,
  parseExitSubject,
  STREAMS,
  SUBJECTS,
} from "../../../shared/protocol/subjects.ts";
import { validate } from "../../../shared/protocol/validation.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { keptTrace } from "../../../shared/runtime/observability/trace-context.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { type AwaitsLastWords, createLastWords } from "./pending-writes.ts";
import type { NoteFailure } from "./record-failure.ts";

const EXITS = { stream: STREAMS.exits, durable: "watchdog-exits", filters: [SUBJECTS.everyExit] };
const HANDOFFS = {
  stream: STREAMS.events,
  durable: "watchdog-handoffs",
  filters: [SUBJECTS.eventsOf("HANDOFF_FAILED")],
};
const CONSUMING = { ackWaitMs: 10_000, pullMs: 60_000 };
const UNDER_WAY = 64;
/** Reports that wait for last words keep their places; after an outage they are many, and must not hold up those that need not wait. */
const WAITING = 5_000;

/** How soon a report is looked at again whose agent's last words wait in the queue. */
const LOOK_AGAIN_MS = 500;

export interface ReportsContext extends ServiceContext {
  readonly backgroundBus: Bus;
}

type Repository = Pick<CheckpointRepository, "handoff" | "recovery">;

/** Starts in the background; what nobody consumes yet waits in its stream. */
export function startReports(context: ReportsContext, repository: Repository, note: NoteFailure): Stop {
  const { backgroundBus: bus, clock, log } = context;
  /** Of a task whose records are damaged nothing can be noted; its reports would come again for ever, and take the places of others. */
  const givingUp = (see: (message: DurableMessage) => Promise<void>) => async (message: DurableMessage) => {
    try {
      await see(message);
    } catch (error) {
      if (!(error instanceof FleetError) || error.retryable) throw error;
      const { subject, seq } = message;
      log.error({ error, subject, seq }, "the failure of an agent cannot be noted");
      message.dead("nothing can be noted of its task");
    }
  };
  const awaitsLastWords = createLastWords(bus, repository, clock);
  const exits = givingUp((message) => exited(context, awaitsLastWords, note, message));
  const handoffs = givingUp((message) => handoffFailed(context, repository, note, message));
  return startConsumers({ bus, clock, log }, [
    { options: { ...EXITS, ...CONSUMING, maxAckPending: WAITING, concurrencyMax: UNDER_WAY }, handle: exits },
    { options: { ...HANDOFFS, ...CONSUMING, maxAckPending: UNDER_WAY }, handle: handoffs },
  ]);
}

async function exited(
  { log }: ReportsContext,
  awaitsLastWords: AwaitsLastWords,
  note: NoteFailure,
  message: DurableMessage,
): Promise<void> {
  const said = readReport(message);
  if (said instanceof FleetError) {
    const { subject, seq } = message;
    log.error({ error: said, subject, seq }, "message is not an exit report");
    return message.dead("not an exit report");
  }
  const { tenant, report } = said;
  const { agent_id, agent_type, task_id: task, fence, class: failureClass, ended_at: last_sign_at } = report;
  // It never had the task.
  if (fence === 0) return;
  if (await awaitsLastWords({ tenant, task, fence, agentId: agent_id }, message.seq))
    return message.giveBack(LOOK_AGAIN_MS);
  const { details = null, resets_at = null } = report;
  const sighting = { class: failureClass, signal: "exit_report", agent_id, agent_type, fence } as const;
  await note({ tenant, task }, { ...sighting, details, resets_at, last_sign_at }, message.headers);
}

/** What comes instead of a report, from whomever, would come again for ever. */
function readReport(message: DurableMessage): { tenant: string; report: ExitReport } | FleetError {
  try {
    const { tenant, agent, task } = parseExitSubject(message.subject);
    const body = decodeBody(message.body, message.headers.get(HEADERS.contentType));
    const report = validate(exitReportSchema, body);
    // The bus vouches for the subject, nobody for the body.
    if (report.agent_id !== agent) throw invalid("agent_id", agent, report.agent_id);
    if (report.task_id !== task) throw invalid("task_id", task, report.task_id);
    return { tenant, report };
  } catch (error) {
    if (error instanceof FleetError) return error;
    throw error;
  }
}

async function handoffFailed(
  { log }: ReportsContext,
  repository: Repository,
  note: NoteFailure,
  message: DurableMessage,
): Promise<void> {
  const event = readFailed(message);
  if (event instanceof FleetError) {
    const { subject, seq } = message;
    log.error({ error: event, subject, seq }, "message is not an event of a handoff");
    return message.dead("not an event of a handoff");
  }
  const { tenant, subject: task, data } = event;
  if (data.state !== "lapsed" && !(data.state === "rejected" && data.reason === "hash_broken")) return;
  const handoff = await found(repository, tenant, { task_id: task });
  // Somebody has handed it off anew.
  if (handoff?.handoff_id !== data.handoffId) return;
  const parent = handoff.traceparent === undefined ? message.headers : keptTrace(handoff.traceparent);
  if (data.state === "lapsed") return void (await note({ tenant, task }, lapsed(handoff), parent));
  const [head] = await repository.recovery.heads(tenant, [task]);
  // It waits for a person already, for another reason.
  if (head == null || head.recovery?.state === "blocked") return;
  await note({ tenant, task }, rejected(handoff, head.fence), parent);
}

function readFailed({ body }: DurableMessage): FleetEvent<"HANDOFF_FAILED"> | FleetError {
  try {
    return readEvent(decodeBody(body, CONTENT_TYPES.json), ["HANDOFF_FAILED"]);
  } catch (error) {
    if (error instanceof FleetError) return error;
    throw error;
  }
}

async function found(
  repository: Repository,
  tenant: string,
  query: Parameters<Repository["handoff"]>[1],
): Promise<Handoff | null> {
  try {
    return await repository.handoff(tenant, query);
  } catch (error) {
    // After a restore of the store, for one.
    if (error instanceof FleetError && error.code === "NOT_FOUND") return null;
    throw error;
  }
}

function lapsed({ accepted_by, to_agent_type, fence, accepted_at }: Handoff): Parameters<NoteFailure>[1] {
  return {
    class: "timeout",
    signal: "handoff_lapsed",
    agent_id: accepted_by,
    agent_type: to_agent_type,
    fence: fence ?? 0,
    details: "it took the task over and wrote nothing",
    resets_at: null,
    last_sign_at: accepted_at,
  };
}

function rejected(
  { to_agent_type, from_agent_type, failure, ended_at }: Handoff,
  fence: number,
): Parameters<NoteFailure>[1] {
  return {
    class: "corrupt_state",
    signal: "handoff_rejected",
    agent_id: null,
    agent_type: to_agent_type ?? from_agent_type,
    fence,
    details: failure?.details ?? null,
    resets_at: null,
    last_sign_at: ended_at,
  };
}
