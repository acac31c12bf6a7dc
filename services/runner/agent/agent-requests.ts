/**
 * Requests about a running agent: to restart it, and to ask it for a checkpoint. Each agent has its own subject, so a request about an
 * agent that no runner has is refused by the server at once.
 */
import type { Bus, Outgoing } from "../../../shared/bus/bus.ts";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { AgentRequestOp } from "../../../shared/protocol/operations.ts";
import { answersCaller, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import { withSpan } from "../../../shared/runtime/observability/tracing.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import type { AgentRecord } from "../journal.ts";
import type { AgentLifecycle } from "./agent-lifecycle.ts";

/** A restart waits for the end of the program, so one request of an agent at a time. */
const CONCURRENCY = 1;

/** Never rejects: an agent without requests is better than none. */
export async function serveAgentRequests(
  bus: Bus,
  { tenant, agent_id }: AgentRecord,
  lifecycle: AgentLifecycle,
  log: Logger,
): Promise<Stop> {
  const serve = (op: AgentRequestOp, carryOut: () => Promise<void>): Promise<Stop> =>
    bus.serve(
      SUBJECTS.agentRequests(tenant, agent_id, op),
      {
        queue: "runner",
        concurrencyMax: CONCURRENCY,
        waitMsMax: LIMITS.request_wait_ms_max,
        isOwnReply: ({ subject, replyTo }) => answersCaller(subject, replyTo),
        dropped: ({ subject, replyTo }) =>
          log.warn({ subject, reply_to: replyTo }, "request dropped: its answer would not go to its caller"),
        overload: () => encoded(errorOf(BUSY)),
        failed: (_, error) => encoded(errorOf(error)),
      },
      (message) =>
        withSpan(
          "runner request",
          { "agent.id": agent_id },
          async () => encoded(await carryOut().then(() => done, errorOf)),
          { parent: message.headers, kind: "server" },
        ),
    );
  const done = { status: "ok", result: { agent_id } };
  try {
    const stops = await Promise.all([
      serve("restart", () => lifecycle.restart()),
      serve("inject", () => lifecycle.askForCheckpoint()),
    ]);
    return async () => void (await Promise.all(stops.map((stop) => stop())));
  } catch (error) {
    log.warn({ agent_id, error }, "requests about the agent are not served");
    return async () => {};
  }
}

const BUSY = new FleetError("UNAVAILABLE", "the runner still handles another request about the agent");

function errorOf(error: unknown): unknown {
  const known =
    error instanceof FleetError
      ? error
      : new FleetError("INTERNAL", "the request failed; the log of the runner has the details");
  return { status: "error", error: known.toBody() };
}

const encoded = (value: unknown): Outgoing => ({ body: Buffer.from(JSON.stringify(value)) });
