/**
 * The writer: applies commands, each in one transaction, queues them while the store is away and drains the queue when it is back, and
 * relays the events that the transactions left behind.
 */
import type { Bus } from "../../shared/bus/bus.ts";
import { serveEndpoint } from "../../shared/bus/request/endpoint.ts";
import { decodeBody, encodeBody } from "../../shared/integrity/wire.ts";
import { QUEUES, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Format } from "../../shared/records/kv/format.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { knownAgentTypes } from "../../shared/service-host/policy-file.ts";
import { openRepository } from "../../shared/service-host/repository.ts";
import type { Store } from "../../shared/store/store.ts";
import { createBacklog } from "./backlog.ts";
import { createEntrance } from "./command-handler.ts";
import { createCommandParser, isCommandOp } from "./commands.ts";
import type { WriterConfig } from "./config.ts";
import { startExpiry } from "./expiry.ts";
import { startDraining } from "./queue-consumer.ts";
import { startQueueGauges } from "./queue-gauges.ts";
import { startReturned } from "./redelivery.ts";
import { startRelay } from "./relay.ts";
import { storeBreaker } from "./store-breaker.ts";

export interface WriterContext extends ServiceContext {
  readonly store: Store;
  readonly bus: Bus;
  readonly backgroundBus: Bus;
  readonly format: Format;
  readonly instance: string;
  readonly config: WriterConfig;
}

export async function start(context: WriterContext): Promise<Stop> {
  const { bus, clock, log, metrics, config } = context;
  const repository = openRepository(context, {
    finder: "writer",
    policies: config.policies,
  });
  const agentTypes = knownAgentTypes(config.agentTypes);
  const parseCommand = createCommandParser(repository, agentTypes, () => clock.now());
  const breaker = storeBreaker(context);
  const backlog = createBacklog(context.backgroundBus, clock);
  const parts = { ...context, backlog, breaker, parseCommand, repository };
  const stopServing = await serveEndpoint(
    {
      bus,
      log,
      metrics,
      clock,
      service: "writer",
      subject: SUBJECTS.everyCommand,
      queue: QUEUES.writer,
      latency: metrics.checkpointWriteLatencyMs,
      total: metrics.commandsTotal,
      opOf: (subject) => {
        const op = subject.slice(subject.lastIndexOf(".") + 1);
        return isCommandOp(op) ? op : "unknown";
      },
      decode: decodeBody,
      encode: encodeBody,
    },
    createEntrance(parts),
  );
  const stopDraining = startDraining(parts);
  const stopReturned = startReturned(context);
  const stopGauges = startQueueGauges(context);
  const stopRelay = startRelay({ ...context, bus: context.backgroundBus });
  const stopExpiry = startExpiry(context);
  log.info({ instance: context.instance }, "writer started");
  return async () => {
    await stopServing();
    await Promise.all([stopDraining(), stopReturned(), stopGauges(), stopRelay(), stopExpiry()]);
    await breaker.stop();
    log.info("writer stopped");
  };
}
