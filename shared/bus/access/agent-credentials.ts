/** Credentials for the agent of a runner that has no key of the fleet: it makes the agent's key, and a signing service signs the claims. */
import { createUser, fmtCreds } from "@nats-io/jwt";
import type { AgentCredentialsResult } from "../../protocol/agent-credentials.ts";
import { type ErrorBody, FleetError } from "../../protocol/errors.ts";
import { SUBJECTS } from "../../protocol/subjects.ts";
import type { Bus } from "../bus.ts";
import { withNodeCrypto } from "./key-pair.ts";

const REQUEST_MS = 5_000;

type Answer =
  | { readonly status: "ok"; readonly result: AgentCredentialsResult }
  | { readonly status: "error"; readonly error: ErrorBody };

/** The content of a credentials file. Throws BusError without an answer, FleetError for a refusal. */
export async function requestAgentCredentials(
  bus: Pick<Bus, "request">,
  of: { readonly tenant: string; readonly runner: string; readonly agentId: string },
): Promise<string> {
  const user = withNodeCrypto(createUser());
  const body = Buffer.from(JSON.stringify({ agent_id: of.agentId, user: user.getPublicKey() }));
  const subject = SUBJECTS.agentCredentials(of.tenant, of.runner);
  const message = await bus.request(subject, { body }, { timeoutMs: REQUEST_MS });
  const answer = JSON.parse(Buffer.from(message.body).toString()) as Answer;
  if (answer.status === "error") throw FleetError.fromBody(answer.error);
  return Buffer.from(fmtCreds(answer.result.jwt, user)).toString();
}
