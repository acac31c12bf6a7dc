/** The events of sessions: the only query whose answer changes the state of the caller's own session. */
import type { TurnEvent, TurnResult } from "../../shared/protocol/turns.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import { requireSpace } from "../../shared/service-host/disk-full.ts";
import type { ReaderContext } from "./context.ts";

export type TurnQuery = (tenant: string, event: TurnEvent, agent: string) => Promise<TurnResult>;

export function createTurnQuery(
  { log, metrics, disk }: Pick<ReaderContext, "log" | "metrics" | "disk">,
  { sessions }: CheckpointRepository,
): TurnQuery {
  return async (tenant, event, agent) => {
    // The reserve of the disk is for recoveries. A hook keeps the event, and sends it again when there is room.
    requireSpace(disk, "store");
    const result = await sessions.turnEvent({ tenant, agent }, event);
    const { decision, save } = result;
    metrics.turnEventsTotal.inc({ event: event.event, decision });
    const facts = { tenant, agent_id: agent, session_id: event.session_id, task_id: result.session.task_id };
    if (decision === "requested") log.info(facts, "checkpoint requested at the end of a turn");
    if (save) log.info({ ...facts, event: event.event }, "work of a session is to be saved");
    return result;
  };
}
