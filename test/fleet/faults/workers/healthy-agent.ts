/** An agent whose process has no faults: it must never lose a task. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../../../../shared/runtime/observability/log.ts";
import type { FleetClient } from "../../../../shared/sdk/client/client.ts";
import { runAgent } from "../../../../shared/sdk/sdk.ts";
import type { HistorySink } from "../agents/history.ts";
import { HEALTHY, HEARTBEAT_MS, taskName } from "./task-kinds.ts";

/** Longer than the silence timeout, so that heartbeats are the only sign of life. */
const ITEM_MS = 7_000;
const RETRY_MS = 300;

export interface HealthyOptions {
  readonly index: number;
  readonly group: { readonly history: HistorySink; readonly log: Logger; readonly stopping: AbortSignal };
}

/** Works on one task of its own after the other until the group stops. */
export async function workHealthily(
  client: FleetClient,
  { index, group: { history, log, stopping } }: HealthyOptions,
): Promise<void> {
  for (let n = 0; !stopping.aborted; n += 1) {
    const task = taskName("healthy", 1_000 * index + n);
    let fence = 0;
    try {
      await runAgent({
        ...{ fleet: client, type: HEALTHY, heartbeatMs: HEARTBEAT_MS, signal: stopping },
        task,
        begin: { pending_items: Array.from({ length: 500 }, (_, i) => `item ${i}`) },
        checkpoints: { items: 1 },
        log: (line) => log.info({ line }, "a line of a healthy agent"),
        async work(run) {
          ({ fence } = run);
          for (const item of run.items()) {
            await sleep(ITEM_MS, undefined, { signal: run.signal });
            await run.done(item);
          }
        },
      });
    } catch (error) {
      // For example, neither the bus nor the disk accepts its checkpoint. The same cause may suppress its exit report.
      log.warn({ error }, "a healthy agent ended with an error");
      await history.append({
        ...{ line: "lifecycle", at: Date.now(), agent: client.agentId, task, fence },
        what: "fails",
      });
      await sleep(RETRY_MS);
    }
  }
}
