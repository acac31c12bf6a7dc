/**
 * The service side of the server's auth callout. For each connection that presents no credentials of the fleet, the server
 * asks here, encrypted, and waits ten seconds for an answer: the claims of a user, or a refusal.
 * https://docs.nats.io/running-a-nats-service/configuration/securing_nats/auth_callout
 */
import { type AuthorizationRequest, type ClaimsData, encodeAuthorizationResponse } from "@nats-io/jwt";
import type { Msg } from "@nats-io/transport-node";
import type { ClientRole } from "../../protocol/roles.ts";
import { SUBJECTS } from "../../protocol/subjects.ts";
import type { Health } from "../../runtime/observability/ops-server.ts";
import type { Stop } from "../../runtime/process/service.ts";
import { busError } from "../bus-errors.ts";
import { type ConnectBusOptions, openConnection } from "../connection.ts";
import { userClaims } from "./claims.ts";
import { isSignedBy } from "./key-pair.ts";
import type { SignerKeys } from "./signer-keys.ts";

const ALGORITHM = "ed25519-nkey";
const AUDIENCE = "nats-authorization-request";
const CURVE_HEADER = "Nats-Server-Xkey";
const HEALTH_MS = 1_500;
const QUEUE = "fleet-signer";

export interface SignerGrant {
  readonly role: ClientRole;
  readonly tenant: string;
  /** The token of the principal in subjects. */
  readonly name: string;
  /** In seconds since the epoch. The server closes the connection then. */
  readonly expiresAt: number;
}

export interface Applicant {
  /** The token that the connection presents. */
  readonly token: string;
  /** The address of the client, as the server sees it. */
  readonly host: string;
}

export interface CalloutOptions {
  readonly bus: ConnectBusOptions;
  readonly keys: SignerKeys;
  /** undefined: refused. The reason stays inside the fleet. */
  readonly decide: (applicant: Applicant) => Promise<SignerGrant | undefined>;
}

export interface Callout {
  health(): Promise<Health>;
  readonly stop: Stop;
}

export async function serveCallout({ bus, keys, decide }: CalloutOptions): Promise<Callout> {
  const { log } = bus;
  const connection = await openConnection(bus, SUBJECTS.serviceInboxPrefix("signer", bus.identity));
  let problem: unknown;
  const answer = async (message: Msg): Promise<void> => {
    const serverKey = message.headers?.get(CURVE_HEADER) ?? "";
    const plain = serverKey === "" ? null : keys.curve.open(message.data, serverKey);
    // Without its own encryption, a request does not come from a server that knows this service.
    if (plain === null) return log.warn("a request without valid encryption was dropped");
    const request = readRequest(Buffer.from(plain).toString());
    if (request === undefined) return log.warn("a request of another form was dropped");
    const { user_nkey: user, server_id: server, connect_opts, client_info } = request;
    const grant = await decide({
      token: connect_opts?.auth_token ?? "",
      host: client_info?.host ?? "",
    });
    const signer = grant && keys.roles[grant.role];
    const content =
      grant === undefined || signer === undefined
        ? { error: "the token was refused" }
        : { jwt: await userClaims(grant, user, { account: keys.account, signer }) };
    const response = await encodeAuthorizationResponse(user, server.id, keys.signer, content, {});
    message.respond(keys.curve.seal(Buffer.from(response), serverKey));
  };
  connection.subscribe(SUBJECTS.authRequest, {
    queue: QUEUE,
    callback: (error, message) => {
      if (error !== null) {
        problem = error;
        return log.error({ error }, "requests are not received");
      }
      answer(message).catch((failure: unknown) => log.error({ error: failure }, "a request failed"));
    },
  });
  // The server refuses a subscription before it answers the flush.
  await connection.flush();
  if (problem !== undefined) {
    await connection.close();
    throw busError(problem, { subject: SUBJECTS.authRequest });
  }
  return {
    async health() {
      if (problem !== undefined) return { ok: false, detail: "requests are not received" };
      const late = AbortSignal.timeout(HEALTH_MS);
      const timeout = new Promise<never>((_, reject) => {
        late.addEventListener("abort", () => reject(new Error("no answer in time")));
      });
      try {
        await Promise.race([connection.flush(), timeout]);
        return { ok: true, detail: "connected" };
      } catch (error) {
        return { ok: false, detail: error instanceof Error ? error.message : String(error) };
      }
    },
    stop: () => connection.drain(),
  };
}

/** undefined: the text is no request of a server. The library's own verification takes thirty times as long. */
function readRequest(jwt: string): AuthorizationRequest | undefined {
  const [header = "", payload = "", signature = ""] = jwt.split(".");
  const { alg } = JSON.parse(Buffer.from(header, "base64url").toString()) as { readonly alg?: unknown };
  const { iss, aud, nats } = JSON.parse(
    Buffer.from(payload, "base64url").toString(),
  ) as ClaimsData<AuthorizationRequest>;
  const isSigned =
    alg === ALGORITHM &&
    isSignedBy(iss, Buffer.from(`${header}.${payload}`), Buffer.from(signature, "base64url"));
  if (!isSigned || aud !== AUDIENCE || nats.server_id?.id !== iss || nats.user_nkey === undefined)
    return undefined;
  return nats as AuthorizationRequest;
}
