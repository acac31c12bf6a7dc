/** A request to the runner of an agent. It is sent once: a repeated restart would stop the agent again. */
import { BusError } from "../../bus/bus.ts";
import { FleetError } from "../../protocol/errors.ts";
import type { AgentRequestOp } from "../../protocol/operations.ts";
import { SUBJECTS } from "../../protocol/subjects.ts";
import type { ClientConnection } from "../request/connection.ts";

/** A restart waits for the end of the program. */
const ANSWER_MS = 60_000;

export interface AgentRequest {
  readonly tenant: string;
  readonly caller: string;
  readonly agentId: string;
  readonly op: AgentRequestOp;
  readonly deadlineMs?: number | undefined;
}

/** Throws NOT_FOUND if no runner has the agent, INVALID if nothing can be written to it, TIMEOUT if the outcome is unknown. */
export async function requestOfAgent(
  { bus }: ClientConnection,
  { tenant, caller, agentId, op, deadlineMs = ANSWER_MS }: AgentRequest,
): Promise<void> {
  const subject = SUBJECTS.agentRequest(tenant, caller, agentId, op);
  try {
    const { body } = await bus.request(subject, { body: Buffer.from("{}") }, { timeoutMs: deadlineMs });
    const answer = JSON.parse(Buffer.from(body).toString());
    if (answer.status === "error") throw FleetError.fromBody(answer.error);
  } catch (error) {
    throw error instanceof BusError ? failureOf(error, agentId) : error;
  }
}

function failureOf(error: BusError, agentId: string): FleetError {
  const details = { agent_id: agentId };
  if (error.kind === "no_responders")
    return new FleetError("NOT_FOUND", "no runner has this agent", { details, cause: error });
  if (error.kind === "timeout")
    return new FleetError("TIMEOUT", "the runner did not answer in time", { details, cause: error });
  return new FleetError("UNAVAILABLE", "the bus could not do this", {
    details: { ...details, bus: error.kind },
    cause: error,
  });
}
