/**
 * The writer: applies commands, each in one transaction, queues them while the store is unavailable and
 * consumes the queue afterwards, publishes the events of the transactions, finalizes superseded drafts, ends
 * locks of missions, and removes old checkpoints.
 */
import { openEsignIssuers } from "../../shared/bus/access/issuers/esign-issuers.ts";
import { type EndpointOptions, serveEndpoint } from "../../shared/bus/request/endpoint.ts";
import { decodeBody, encodeBody } from "../../shared/integrity/wire.ts";
import { QUEUES, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { AccessRecorder } from "../../shared/service-host/access-log/access-recorder.ts";
import { knownAgentTypes } from "../../shared/service-host/policy-file.ts";
import { openRepository } from "../../shared/service-host/repository.ts";
import { createCommandHandler } from "./command-handler.ts";
import { createCommandParser, isCommandOp } from "./commands.ts";
import type { WriterContext } from "./context.ts";
import { SignatureDesk } from "./esign/signature-desk.ts";
import { startExpiry } from "./expiry.ts";
import { startDiskMonitor } from "./monitor/disk-alert.ts";
import { startQueueMonitor } from "./monitor/queue-monitor.ts";
import { startFillMonitor } from "./monitor/stream-fill.ts";
import { createBacklog } from "./queue.ts";
import { startQueueConsumer } from "./queue-consumer.ts";
import { RefusalLog } from "./refusals.ts";
import { startRelay } from "./relay.ts";
import { storeBreaker } from "./store-breaker.ts";
import { startAccessPruning } from "./sweeps/access-log.ts";
import { startDraftFinalizer } from "./sweeps/draft-finalizer.ts";
import { startMissionSweep } from "./sweeps/missions.ts";
import { startRetention } from "./sweeps/retention.ts";
import { startShredding } from "./sweeps/shredding.ts";

export async function start(context: WriterContext): Promise<Stop> {
  const { bus, clock, log, metrics, config } = context;
  const { policies } = config;
  const repository = openRepository(context, { finder: "writer", policies });
  const agentTypes = knownAgentTypes(config.agentTypes);
  const now = () => clock.now();
  const issuers = openEsignIssuers(config.esign ?? []);
  const desk = new SignatureDesk({ repository, issuers, bus, metrics, log, now });
  const parseCommand = createCommandParser(repository, { agentTypes, policies, desk }, now, metrics);
  const breaker = storeBreaker(context);
  const backlog = createBacklog(context.backgroundBus, clock);
  const parts = { ...context, backlog, breaker, parseCommand, repository };
  const recorder = new AccessRecorder(context, policies, repository.accessLogs);
  const refusals = new RefusalLog(recorder, now);
  const handle = refusals.watch(createCommandHandler(parts));
  const serve = (subject: string) =>
    serveEndpoint({ ...endpointOf(context), subject, onDropped: refusals.dropped }, handle);
  const served = await Promise.all([serve(SUBJECTS.everyCommand), serve(SUBJECTS.everyAcceptance)]);
  const stopConsuming = startQueueConsumer(parts);
  const stopMonitor = startQueueMonitor(context);
  const stopFillMonitor = startFillMonitor(context);
  const stopDiskMonitor = startDiskMonitor(context);
  const stopRelay = startRelay({ ...context, bus: context.backgroundBus });
  const stopExpiry = startExpiry(context);
  const stopFinalizer = startDraftFinalizer(context);
  const stopRetention = startRetention(context);
  const stopShredding = startShredding(context);
  const stopAccessPruning = startAccessPruning(context, repository.accessLogs);
  const stopMissionSweep = startMissionSweep(context);
  log.info({ instance: context.instance }, "writer started");
  return async () => {
    await Promise.all(served.map((stop) => stop()));
    await Promise.all(
      [
        recorder.stop,
        stopConsuming,
        stopMonitor,
        stopFillMonitor,
        stopDiskMonitor,
        stopRelay,
        stopExpiry,
        stopFinalizer,
        stopRetention,
        stopShredding,
        stopAccessPruning,
        stopMissionSweep,
      ].map((stop) => stop()),
    );
    await breaker.stop();
    log.info("writer stopped");
  };
}

function endpointOf({ bus, log, metrics, clock }: WriterContext): Omit<EndpointOptions, "subject"> {
  return {
    bus,
    log,
    metrics,
    clock,
    service: "writer",
    queue: QUEUES.writer,
    latency: metrics.checkpointWriteLatencyMs,
    total: metrics.commandsTotal,
    opOf: (subject) => {
      const op = subject.split(".", 6)[5] ?? "";
      return isCommandOp(op) ? op : "unknown";
    },
    decode: decodeBody,
    encode: encodeBody,
  };
}
