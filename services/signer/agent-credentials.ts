/**
 * Answers runners, which ask for the credentials of the agents that they start. The subject names the runner, and the server has
 * compared it with the runner's own credentials, so a revoked runner gets no more. It may name any agent of its tenant: it accepts
 * offers for all of them.
 */
import { userClaims } from "../../shared/bus/access/claims.ts";
import { isUserKey } from "../../shared/bus/access/key-pair.ts";
import type { SignerKeys } from "../../shared/bus/access/signer-keys.ts";
import type { Bus, Message, Outgoing } from "../../shared/bus/bus.ts";
import {
  type AgentCredentialsResult,
  agentCredentialsRequestSchema,
} from "../../shared/protocol/agent-credentials.ts";
import { FleetError, fieldsWithoutValues, invalid } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { answersCaller, callerOf, QUEUES, SUBJECTS } from "../../shared/protocol/subjects.ts";
import { validate } from "../../shared/protocol/validation.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";

const VALID_S = 60 * 60;
const REFUSED = "agent_refused";

const outgoing = (value: object): Outgoing => ({ body: Buffer.from(JSON.stringify(value)) });
const failure = (error: FleetError): Outgoing => outgoing({ status: "error", error: error.toBody() });

type Context = ServiceContext & { readonly keys: Pick<SignerKeys, "account" | "roles"> };

export function serveAgentCredentials(context: Context, bus: Bus): Promise<Stop> {
  const { log, metrics } = context;
  const refused = (subject: string, error: FleetError): Outgoing => {
    metrics.signerRequestsTotal.inc({ outcome: REFUSED });
    const { code } = error;
    const fields = fieldsWithoutValues(error.fields);
    log.warn({ subject, code, fields }, "credentials for the agent of a runner were refused");
    return failure(error);
  };
  return bus.serve(
    SUBJECTS.everyAgentCredentials,
    {
      queue: QUEUES.signer,
      concurrencyMax: LIMITS.requests_in_flight_max,
      waitMsMax: LIMITS.request_wait_ms_max,
      isOwnReply: ({ subject, replyTo }) => answersCaller(subject, replyTo),
      dropped: ({ subject, replyTo }) =>
        log.warn({ subject, reply_to: replyTo }, "request dropped: its answer would not go to its caller"),
      overload: ({ subject }) =>
        refused(
          subject,
          new FleetError("UNAVAILABLE", "the service has reached its limit of open requests", {
            retryAfterMs: LIMITS.overload_retry_ms,
          }),
        ),
      failed: (message, error) => {
        log.error({ error, subject: message.subject }, "a request for credentials failed");
        return failure(
          new FleetError("INTERNAL", "an unexpected failure; the service's log has the details"),
        );
      },
    },
    async (message) => {
      try {
        const result = await issue(context, message);
        metrics.signerRequestsTotal.inc({ outcome: "agent_issued" });
        return outgoing({ status: "ok", result });
      } catch (error) {
        if (!(error instanceof FleetError)) throw error;
        return refused(message.subject, error);
      }
    },
  );
}

async function issue(
  { log, clock, keys }: Context,
  { subject, body }: Message,
): Promise<AgentCredentialsResult> {
  const { tenant, caller: runner } = callerOf(subject) ?? {};
  if (tenant === undefined) throw invalid("subject", "a tenant and a runner", subject);
  const signer = keys.roles.agent;
  if (signer === undefined)
    throw new FleetError("FORBIDDEN", "this signing service may not issue credentials of agents");
  const { agent_id: name, user } = validate(agentCredentialsRequestSchema, parsed(body));
  if (!isUserKey(user)) throw invalid("user", "the public name of a user's key", user);
  const expiresAt = Math.ceil(clock.now() / 1_000) + VALID_S;
  const jwt = await userClaims({ role: "agent", tenant, name, expiresAt }, user, {
    account: keys.account,
    signer,
  });
  const expires_at = new Date(expiresAt * 1_000).toISOString();
  log.info({ tenant, runner, agent_id: name, expires_at }, "credentials issued to the agent of a runner");
  return { jwt, expires_at };
}

function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString());
  } catch {
    throw invalid("body", "JSON", "something else");
  }
}
