/** The reader: answers queries from verified checkpoints, and updates the search index after each commit. */
import { serveEndpoint } from "../../shared/bus/request/endpoint.ts";
import { decodeBody, encodeBody } from "../../shared/integrity/wire.ts";
import { QUEUES, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { AccessRecorder } from "../../shared/service-host/access-log/access-recorder.ts";
import { subscribeHeartbeats } from "../../shared/service-host/heartbeat-subscription.ts";
import { openRepository } from "../../shared/service-host/repository.ts";
import { ReadLog } from "./access-log/access-log.ts";
import { createAgentsQuery } from "./agents.ts";
import { createAlertQueries } from "./alerts.ts";
import { createArtifactQueries } from "./artifacts/artifact-queries.ts";
import { startArtifactSweep } from "./artifacts/artifact-sweep.ts";
import type { ReaderContext } from "./context.ts";
import { startIndexer } from "./followers/index-leader.ts";
import { startMirror } from "./followers/mirror.ts";
import { createOfferQueries } from "./offers.ts";
import { createQueries, isQueryOp } from "./queries.ts";
import { createQueueQueries } from "./queue.ts";
import { createRecoveryQueries } from "./recoveries.ts";
import { createSigningRequest } from "./signing-request.ts";
import { createStatus } from "./status.ts";
import { createEventQuery } from "./streams/event-pages.ts";
import { createTurnQuery } from "./turns.ts";

export async function start(context: ReaderContext): Promise<Stop> {
  const { bus, store, clock, log, metrics, config } = context;
  const repository = openRepository(context, { finder: "reader", policies: config.policies });
  const recorder = new AccessRecorder(context, config.policies, repository.accessLogs);
  const readLog = new ReadLog(recorder, () => clock.now());
  const heartbeats = await subscribeHeartbeats(context);
  const queries = createQueries(
    repository,
    createQueueQueries(context, repository),
    createStatus(context),
    createAgentsQuery({ store, heartbeats, now: () => clock.now() }),
    createAlertQueries(context),
    createRecoveryQueries(repository, config),
    createOfferQueries(context),
    {
      turn_event: createTurnQuery(context, repository),
      events: createEventQuery(context),
      signing_request: createSigningRequest({
        repository,
        issuers: config.esign ?? [],
        now: () => clock.now(),
      }),
      ...createArtifactQueries(context, repository),
    },
    readLog,
  );
  const stopServing = await serveEndpoint(
    {
      bus,
      log,
      metrics,
      clock,
      service: "reader",
      subject: SUBJECTS.everyQuery,
      queue: QUEUES.reader,
      latency: metrics.checkpointReadLatencyMs,
      total: metrics.queriesTotal,
      opOf: (subject) => {
        const op = subject.slice(subject.lastIndexOf(".") + 1);
        return isQueryOp(op) ? op : "unknown";
      },
      decode: decodeBody,
      encode: encodeBody,
      onDropped: (message) => readLog.dropped(message),
    },
    (request) => queries.handle(request),
  );
  const stopIndexer = startIndexer(context, repository);
  const stopMirror = context.mirror && startMirror(context, context.mirror);
  const stopSweep = context.artifacts && startArtifactSweep(context, context.artifacts);
  log.info({ instance: context.instance }, "reader started");
  return async () => {
    await stopServing();
    await recorder.stop();
    await Promise.all([stopIndexer(), stopMirror?.(), stopSweep?.()]);
    await heartbeats.stop();
    log.info("reader stopped");
  };
}
