/** The events of sessions: the only query whose answer changes the state of the caller's own session. */
import type { TurnEvent, TurnResult } from "../../shared/protocol/turns.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { ReaderContext } from "./context.ts";

export type TurnQuery = (tenant: string, event: TurnEvent, agent: string) => Promise<TurnResult>;

export function createTurnQuery(
  { log, metrics }: Pick<ReaderContext, "log" | "metrics">,
  { sessions }: CheckpointRepository,
): TurnQuery {
  return async (tenant, event, agent) => {
    const result = await sessions.turnEvent({ tenant, agent }, event);
    const { decision, save } = result;
    metrics.turnEventsTotal.inc({ event: event.event, decision });
    const facts = { tenant, agent_id: agent, session_id: event.session_id, task_id: result.session.task_id };
    if (decision === "requested") log.info(facts, "checkpoint requested at the end of a turn");
    if (save) log.info({ ...facts, event: event.event }, "work of a session is to be saved");
    return result;
  };
}
