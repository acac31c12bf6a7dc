/** One vocabulary for failures of the bus: every library and JetStream error becomes a BusError. */
import { errors } from "@nats-io/transport-node";
import { BusError, type BusErrorKind } from "./bus.ts";

/** The JetStream error codes with a meaning other than "try again". */
const STREAM_CODES: Readonly<Record<number, BusErrorKind>> = {
  10054: "too_large", // larger than the stream's max_msg_size
  10077: "stream_full", // max bytes or max messages reached, with discard new
  10122: "stream_full", // the stream reached its byte limit
  10047: "stream_full", // no storage left for the account
  10023: "unavailable", // insufficient resources, for example a full disk
  10158: "unavailable", // the same id is being stored right now
};

/** Maps any thrown value. A BusError is returned unchanged. */
export function busError(error: unknown, details: Readonly<Record<string, unknown>> = {}): BusError {
  if (error instanceof BusError) return error;
  return new BusError(
    kindOf(error),
    {
      ...details,
      ...certificateProblem(error),
      reason: error instanceof Error ? error.message : String(error),
    },
    error,
  );
}

/** Node's codes for a certificate of the server that is not trusted, has ended or is for another name. */
const CERTIFICATE_CODE = /^(?:CERT_|ERR_TLS_CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;

function certificateProblem(error: unknown): { readonly certificate?: string } {
  const { code } = error as { code?: unknown };
  return typeof code === "string" && CERTIFICATE_CODE.test(code) ? { certificate: code } : {};
}

/** The client library takes a program that was too slow to send its credentials for one that has no valid ones. */
export function refusesCredentials(error: unknown): boolean {
  return error instanceof errors.AuthorizationError && !/authentication timeout/i.test(error.message);
}

function kindOf(error: unknown): BusErrorKind {
  if (error instanceof errors.TimeoutError) return "timeout";
  if (error instanceof errors.NoRespondersError) return "no_responders";
  if (error instanceof errors.PermissionViolationError || refusesCredentials(error)) return "permission";
  if (error instanceof errors.UserAuthenticationExpiredError) return "permission";
  if (error instanceof errors.ClosedConnectionError || error instanceof errors.DrainingConnectionError)
    return "closed";
  if (error instanceof errors.InvalidArgumentError && error.message.includes("max_payload"))
    return "too_large";
  if (error instanceof errors.RequestError && error.cause !== undefined) return kindOf(error.cause);
  return "unavailable";
}

/** Maps the error in a JetStream answer: `{ code, err_code, description }`. */
export function streamError(
  error: { code?: number; err_code?: number; description?: string },
  details: Readonly<Record<string, unknown>> = {},
): BusError {
  const kind = STREAM_CODES[error.err_code ?? 0] ?? "unavailable";
  return new BusError(kind, { ...details, err_code: error.err_code, reason: error.description });
}
