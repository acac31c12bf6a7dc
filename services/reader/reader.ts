/** The reader: answers queries from verified checkpoints, and keeps the search index up with what is committed. */
import type { Bus } from "../../shared/bus/bus.ts";
import { serveEndpoint } from "../../shared/bus/endpoint.ts";
import { decodeBody, encodeBody } from "../../shared/integrity/wire.ts";
import { QUEUES, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { Format } from "../../shared/records/format.ts";
import { CheckpointRepository } from "../../shared/records/repository.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/service.ts";
import type { Store } from "../../shared/store/store.ts";
import { startIndexing } from "./indexing.ts";
import { createQueries, isQueryOp } from "./queries.ts";
import { createStatus } from "./status.ts";

export interface ReaderContext extends ServiceContext {
  readonly store: Store;
  readonly bus: Bus;
  readonly format: Format;
  /** Names this instance in leases. */
  readonly instance: string;
}

export async function start(context: ReaderContext): Promise<Stop> {
  const { bus, store, format, clock, log, metrics } = context;
  const repository = new CheckpointRepository({
    store,
    format,
    finder: "reader",
    now: () => clock.now(),
    onCorrupt: (task, corrupt) => {
      metrics.checkpointCorruptTotal.inc();
      log.error({ task_id: task, ...corrupt }, "a stored checkpoint is corrupt and was quarantined");
    },
  });
  const queries = createQueries(repository, createStatus(context));
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
    },
    (request) => queries.handle(request),
  );
  const stopIndexing = startIndexing(context, repository);
  log.info({ instance: context.instance }, "reader started");
  return async () => {
    await stopServing();
    await stopIndexing();
    log.info("reader stopped");
  };
}
