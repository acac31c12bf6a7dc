/** Answers one request of an operation: who calls, whether it may, what it sends, and what the fleet answers. */
import type { HttpBindings } from "@hono/node-server";
import type { Context } from "hono";
import { FleetError } from "../../../shared/protocol/errors.ts";
import type { RestRoute } from "../../../shared/protocol/rest/route.ts";
import { isInScope, scopeOf } from "../../../shared/protocol/rest/scopes.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import type { DenialReporter } from "../../../shared/sdk/access-log/denial-reporter.ts";
import type { Redaction } from "../../../shared/sdk/redaction/redaction.ts";
import { act } from "../acts/act.ts";
import type { ActAnswer } from "../acts/act-context.ts";
import { artifactContent } from "../acts/artifact-content.ts";
import { eventStream } from "../acts/event-stream.ts";
import { FleetRequests, type StatedRequest } from "../acts/fleet-requests.ts";
import type { IdempotencyKeys } from "../acts/idempotency-key.ts";
import type { TaskLookup } from "../acts/task-lookup.ts";
import { type Authentication, TooManyRequests } from "../callers/authentication.ts";
import type { Buckets } from "../callers/bucket.ts";
import type { CallerIdentity } from "../callers/identity.ts";
import type { OpenCounts } from "../callers/open-count.ts";
import type { CallerPool } from "../callers/pool.ts";
import { type Members, readMembers } from "./body.ts";
import type { UrlReader } from "./document.ts";
import type { HttpAnswer } from "./http-answer.ts";
import { RefusedCalls } from "./refused-calls.ts";
import type { RequestFacts } from "./request-recorder.ts";

export type Env = { Bindings: HttpBindings };

export interface OperationParts extends Pick<ServiceContext, "clock" | "log"> {
  readonly authentication: Authentication;
  /** undefined: the gateway has no credentials of its own. */
  readonly denials: DenialReporter | undefined;
  readonly pool: CallerPool;
  /** The requests of one client, in a time. */
  readonly rates: Buckets;
  /** The open requests of one client, and its streams of events. */
  readonly requests: OpenCounts;
  readonly streams: OpenCounts;
  readonly redaction: Redaction;
  /** Aborted when the gateway stops: streams of events end. */
  readonly stopping: AbortSignal;
}

/** Until one of many open requests has ended, probably. */
const BUSY_MS = 1_000;
const NO_QUERY = new URLSearchParams();
const EVENT_STREAM = "text/event-stream";
export const COMMON_HEADERS = { "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" };
const STREAM_HEADERS = {
  ...COMMON_HEADERS,
  "content-type": EVENT_STREAM,
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};
export const JSON_HEADERS = {
  ...COMMON_HEADERS,
  "content-type": "application/json",
  "cache-control": "no-store",
};

export async function answerOperation(
  parts: OperationParts,
  shared: { readonly tasks: TaskLookup; readonly keys: IdempotencyKeys },
  { route, readUrl }: { readonly route: RestRoute; readonly readUrl: UrlReader },
  c: Context<Env>,
  facts: RequestFacts,
): Promise<HttpAnswer> {
  const { raw } = c.req;
  const { authentication, rates } = parts;
  const address = addressOf(c);
  const request = { id: String(facts.request_id), address };
  const refusals = new RefusedCalls(parts, route, request);
  const identity = await refusals.unknown(c.req.header("authorization"), (header) =>
    authentication.identify(header, address),
  );
  const inPath = c.req.param() as Record<string, string>;
  Object.assign(facts, { tenant: identity.tenant, caller: identity.name, ...inPath });
  const waitMs = rates.take(identity.client);
  if (waitMs > 0) throw new TooManyRequests("the caller sends too many requests", waitMs);
  if (!isInScope(route, identity.scopes)) {
    refusals.known(identity, "scope");
    throw outOfScope(route, identity);
  }
  return refusals.watch(identity, () =>
    answerCaller(parts, shared, { route, readUrl, inPath, raw }, { identity, request }),
  );
}

interface ReceivedCall {
  readonly route: RestRoute;
  readonly readUrl: UrlReader;
  readonly inPath: Record<string, string>;
  readonly raw: Request;
}

async function answerCaller(
  parts: OperationParts,
  shared: { readonly tasks: TaskLookup; readonly keys: IdempotencyKeys },
  { route, readUrl, inPath, raw }: ReceivedCall,
  { identity, request }: StatedCall,
): Promise<HttpAnswer> {
  const { pool, clock } = parts;
  const search = raw.url.indexOf("?");
  const query = search === -1 ? NO_QUERY : new URL(raw.url).searchParams;
  const url = readUrl(inPath, query);
  if (route.act.kind === "events" && raw.headers.get("accept")?.includes(EVENT_STREAM) === true)
    return answerEvents(parts, { identity, request }, raw, url);
  if (route.act.kind === "artifact_content") return answerContent(parts, { identity, request }, raw, url);
  const close = parts.requests.open(identity.client);
  if (close === undefined) throw new TooManyRequests("the caller has too many open requests", BUSY_MS);
  try {
    const takesBytes = route.act.kind === "artifact_upload";
    const hasNoMembers = takesBytes || route.method === "GET" || route.method === "DELETE";
    const body = hasNoMembers ? {} : await readMembers(raw);
    const content = takesBytes ? raw.body : null;
    return await pool.use(identity, async (caller) => {
      const { redaction } = parts;
      const fleet = new FleetRequests(caller, { clock, signal: raw.signal, redaction, request });
      return answerOf(await act(route, { ...shared, fleet, headers: raw.headers, url, body, content }));
    });
  } finally {
    close();
  }
}

function outOfScope(route: RestRoute, { scopes }: CallerIdentity): FleetError {
  return new FleetError("FORBIDDEN", "the credentials are not for this operation", {
    details: { scopes, needed: [scopeOf(route), route.id] },
  });
}

interface StatedCall {
  readonly identity: CallerIdentity;
  readonly request: StatedRequest;
}

/** The open request and the connection of the caller are in use until the last byte. */
async function answerContent(
  { pool, clock, requests, stopping }: OperationParts,
  { identity, request: stated }: StatedCall,
  request: Request,
  { sha256 }: Members,
): Promise<HttpAnswer> {
  const close = requests.open(identity.client);
  if (close === undefined) throw new TooManyRequests("the caller has too many open requests", BUSY_MS);
  const left = new AbortController();
  left.signal.addEventListener("abort", close, { once: true });
  const end = (): void => left.abort();
  try {
    const { caller, release } = await pool.hold(identity);
    left.signal.addEventListener("abort", release, { once: true });
    // With its own end: a signal that only long-lived ones could abort is kept as long as they are.
    const signal = AbortSignal.any([request.signal, caller.ended, stopping, left.signal]);
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const fleet = new FleetRequests(caller, { clock, signal, request: stated });
    const { headers } = request;
    const answer = await artifactContent(fleet, { sha256: String(sha256), headers }, end);
    return { ...answer, headers: { ...COMMON_HEADERS, ...answer.headers } };
  } catch (error) {
    end();
    throw error;
  }
}

async function answerEvents(
  { authentication, pool, clock, stopping, streams }: OperationParts,
  { identity, request: stated }: StatedCall,
  request: Request,
  url: Members,
): Promise<HttpAnswer> {
  const close = streams.open(identity.client);
  if (close === undefined) throw new TooManyRequests("the caller has too many streams of events", BUSY_MS);
  const left = new AbortController();
  left.signal.addEventListener("abort", close, { once: true });
  try {
    const { caller, release } = await pool.hold(identity);
    left.signal.addEventListener("abort", release, { once: true });
    const signal = AbortSignal.any([request.signal, caller.ended, stopping, left.signal]);
    const end = (): void => left.abort();
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const after = request.headers.get("last-event-id");
    const body = await eventStream({
      fleet: new FleetRequests(caller, { clock, signal, request: stated }),
      clock,
      members: { ...url, ...(after && { after }) },
      signal,
      isAdmitted: () => authentication.isAdmitted(request.headers.get("authorization") ?? undefined),
      ended: end,
    });
    return { status: 200, headers: STREAM_HEADERS, body };
  } catch (error) {
    left.abort();
    throw error;
  }
}

const addressOf = ({ env }: Context<Env>): string => env?.incoming?.socket?.remoteAddress ?? "unknown";

function answerOf({ status, body, json, headers }: ActAnswer): HttpAnswer {
  const content = json ?? (body === undefined ? undefined : JSON.stringify(body));
  const own = content === undefined ? COMMON_HEADERS : JSON_HEADERS;
  return { status, headers: { ...own, ...headers }, body: content };
}
