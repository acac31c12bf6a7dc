/**
 * Exit reports: how an agent's process ended, as its runner or the agent itself reports it. All watchdogs
 * share one durable consumer, so each report is handled by one of them, at least once. The store records a
 * failure once.
 */
import type { Bus, DurableMessage } from "../../../shared/bus/bus.ts";
import { startConsumers } from "../../../shared/bus/consume/background-consumer.ts";
import { decodeBody } from "../../../shared/integrity/wire.ts";
import { FleetError, invalid } from "../../../shared/protocol/errors.ts";
import { type ExitReport, exitReportSchema } from "../../../shared/protocol/exit-report.ts";
import { requireProtocol } from "../../../shared/protocol/protocol-version.ts";
import { HEADERS, parseExitSubject, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { validate } from "../../../shared/protocol/validation.ts";
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../../shared/runtime/process/service.ts";
import { type AwaitsPendingWrites, createPendingWritesCheck } from "./pending-writes.ts";
import { type RecordFailure, recordOrTerminate } from "./record-failure.ts";

const EXITS = {
  stream: STREAMS.exits,
  durable: "watchdog-exits",
  filters: [SUBJECTS.everyExit],
  ackWaitMs: 10_000,
  pullMs: 60_000,
  concurrencyMax: 64,
  // Waiting reports keep their places. After an outage there are many, and they must not delay the others.
  maxAckPending: 5_000,
};

/** The pause before a report with pending writes is handled again. */
const PENDING_WRITES_MS = 500;
/** The growing pause before a report whose agent has an open handoff is handled again. */
const OPEN_HANDOFF_MS = { first: 1_000, last: 30_000 };

export interface ExitReportContext extends ServiceContext {
  readonly backgroundBus: Bus;
}

/** Starts in the background, as soon as the stream is available. */
export function startExitReports(
  { backgroundBus: bus, clock, log }: ExitReportContext,
  repository: Pick<CheckpointRepository, "recoveryActions">,
  recordFailure: RecordFailure,
): Stop {
  const awaitsPendingWrites = createPendingWritesCheck(bus, repository, clock);
  const handle = async (message: DurableMessage): Promise<void> => {
    const read = readReport(message);
    if (read instanceof FleetError) {
      const { subject, seq } = message;
      log.error({ error: read, subject, seq }, "message is not an exit report");
      return message.dead("not an exit report");
    }
    const { tenant, report } = read;
    // An agent with fence 0 never owned the task.
    if (report.fence === 0) return;
    await recordOrTerminate(log, message, () =>
      recordExit(awaitsPendingWrites, recordFailure, tenant, report, message),
    );
  };
  return startConsumers({ bus, clock, log }, [{ options: EXITS, handle }]);
}

async function recordExit(
  awaitsPendingWrites: AwaitsPendingWrites,
  recordFailure: RecordFailure,
  tenant: string,
  report: ExitReport,
  message: DurableMessage,
): Promise<void> {
  const { agent_id, agent_type, task_id: task, fence, class: failureClass, ended_at: last_sign_at } = report;
  if (await awaitsPendingWrites({ tenant, task, fence, agentId: agent_id }, message.seq))
    return message.giveBack(PENDING_WRITES_MS);
  const { details = null, resets_at = null } = report;
  const exit = { class: failureClass, signal: "exit_report", agent_id, agent_type, fence } as const;
  const failure = { ...exit, details, resets_at, last_sign_at };
  const recorded = await recordFailure({ tenant, task }, failure, message.headers);
  // The agent has done its part, unless its handoff is cancelled: then the task stays with an agent that has
  // exited. The report waits for the end of the handoff, at most as long as its stream keeps it.
  if (!recorded.applied && recorded.why === "handing_off")
    message.giveBack(Math.min(OPEN_HANDOFF_MS.first * 2 ** (message.deliveries - 1), OPEN_HANDOFF_MS.last));
}

/** Returns the error: a message that is not a report would be redelivered for ever. */
function readReport(message: DurableMessage): { tenant: string; report: ExitReport } | FleetError {
  try {
    const { tenant, agent, task } = parseExitSubject(message.subject);
    requireProtocol(message.headers.get(HEADERS.protocol));
    const body = decodeBody(message.body, message.headers.get(HEADERS.contentType));
    const report = validate(exitReportSchema, body);
    // The bus authorises the subject; the body is unverified.
    if (report.agent_id !== agent) throw invalid("agent_id", agent, report.agent_id);
    if (report.task_id !== task) throw invalid("task_id", task, report.task_id);
    return { tenant, report };
  } catch (error) {
    if (error instanceof FleetError) return error;
    throw error;
  }
}
