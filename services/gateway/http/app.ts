/** The routes of the gateway: the operations of the table, the OpenAPI document and its page. */
import { randomBytes } from "node:crypto";
import type { HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { REST_BASE, REST_ROUTES, type RestRoute } from "../../../shared/protocol/rest/routes.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import { act } from "../acts/act.ts";
import type { ActAnswer } from "../acts/act-context.ts";
import { eventStream } from "../acts/event-stream.ts";
import { FleetRequests } from "../acts/fleet-requests.ts";
import { IdempotencyKeys } from "../acts/idempotency-key.ts";
import { TaskLookup } from "../acts/task-lookup.ts";
import { type Authentication, TooManyRequests } from "../callers/authentication.ts";
import type { Buckets } from "../callers/bucket.ts";
import type { CallerIdentity } from "../callers/identity.ts";
import type { CallerPool } from "../callers/pool.ts";
import { type Members, readMembers } from "./body.ts";
import { type ApiOperation, membersOfUrl, operationsOf, readDocument } from "./document.ts";
import type { HostCheck } from "./host-check.ts";
import { HttpError } from "./problem.ts";
import { referencePage } from "./reference-page.ts";
import { type RequestFacts, requestRecorder } from "./request-recorder.ts";

type Env = { Bindings: HttpBindings };

export interface AppParts extends ServiceContext {
  readonly authentication: Authentication;
  readonly pool: CallerPool;
  /** The requests of one caller. */
  readonly rates: Buckets;
  readonly checkHost: HostCheck;
  /** Aborted when the gateway stops: streams of events end. */
  readonly stopping: AbortSignal;
}

const HTML_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};
const COMMON_HEADERS = { "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" };
const EVENT_STREAM = "text/event-stream";
const STREAM_HEADERS = {
  "content-type": EVENT_STREAM,
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};
const JSON_HEADERS = { "content-type": "application/json", "cache-control": "no-store" };

export function createApp(parts: AppParts): Hono<Env> {
  const app = new Hono<Env>();
  const document = readDocument();
  const operations = operationsOf(document);
  const [text, page] = [JSON.stringify(document), referencePage(document)];
  const shared = { tasks: new TaskLookup(), keys: new IdempotencyKeys(parts.clock) };
  const record = requestRecorder(parts);
  const handle =
    (name: string, work: (c: Context<Env>, facts: RequestFacts) => Promise<Response> | Response) =>
    (c: Context<Env>) =>
      record(name, c.req.raw, requestId(), async (facts) => {
        parts.checkHost(c.req.header("host") ?? null, c.req.header("origin") ?? null);
        return work(c, facts);
      });

  for (const route of REST_ROUTES) {
    const operation = operations.get(route.id) as ApiOperation;
    const path = REST_BASE + route.path.replace(/\{(\w+)\}/g, ":$1");
    app.on(
      route.method,
      path,
      handle(route.id, (c, facts) => answerOperation(parts, shared, { route, operation }, c, facts)),
    );
  }
  app.get(
    "/api/openapi.json",
    handle("openapi", () => new Response(text, { headers: { ...JSON_HEADERS, ...COMMON_HEADERS } })),
  );
  app.get(
    "/api/docs",
    handle("docs", () => new Response(page, { headers: { ...HTML_HEADERS, ...COMMON_HEADERS } })),
  );
  app.get(
    "/",
    handle("docs", (c) => c.redirect("/api/docs", 302)),
  );
  for (const [path, methods] of methodsByPath()) {
    app.all(
      path,
      handle("unknown", () => {
        throw methodNotAllowed(methods);
      }),
    );
  }
  app.notFound(
    handle("unknown", () => {
      throw new FleetError("NOT_FOUND", "there is no such path; /api/docs lists them");
    }),
  );
  return app;
}

const requestId = (): string => randomBytes(8).toString("hex");

async function answerOperation(
  parts: AppParts,
  shared: { readonly tasks: TaskLookup; readonly keys: IdempotencyKeys },
  { route, operation }: { readonly route: RestRoute; readonly operation: ApiOperation },
  c: Context<Env>,
  facts: RequestFacts,
): Promise<Response> {
  const { raw } = c.req;
  const { authentication, pool, rates, clock } = parts;
  const identity = authentication.identify(c.req.header("authorization"), addressOf(c));
  Object.assign(facts, { tenant: identity.tenant, caller: identity.name, ...c.req.param() });
  const waitMs = rates.take(`${identity.tenant} ${identity.name}`);
  if (waitMs > 0) throw new TooManyRequests("the caller sends too many requests", waitMs);
  const url = membersOfUrl(operation, c.req.param() as Record<string, string>, new URL(raw.url).searchParams);
  if (route.act.kind === "events" && raw.headers.get("accept")?.includes(EVENT_STREAM) === true)
    return answerEvents(parts, identity, raw, url);
  const body = route.method === "GET" || route.method === "DELETE" ? {} : await readMembers(raw);
  return pool.use(identity, async (caller) => {
    const fleet = new FleetRequests(caller, { clock, signal: raw.signal });
    return responseOf(await act(route, { ...shared, fleet, headers: raw.headers, url, body }));
  });
}

async function answerEvents(
  { authentication, pool, clock, stopping }: AppParts,
  identity: CallerIdentity,
  request: Request,
  url: Members,
): Promise<Response> {
  const { caller, release } = await pool.hold(identity);
  const left = new AbortController();
  const signal = AbortSignal.any([request.signal, caller.ended, stopping, left.signal]);
  signal.addEventListener("abort", release, { once: true });
  try {
    const after = request.headers.get("last-event-id");
    const stream = await eventStream({
      fleet: new FleetRequests(caller, { clock, signal }),
      clock,
      members: { ...url, ...(after && { after }) },
      signal,
      isAdmitted: () => authentication.isAdmitted(request.headers.get("authorization") ?? undefined),
    });
    return new Response(stream, { headers: { ...STREAM_HEADERS, ...COMMON_HEADERS } });
  } catch (error) {
    left.abort();
    throw error;
  }
}

const addressOf = ({ env }: Context<Env>): string => env?.incoming?.socket?.remoteAddress ?? "unknown";

function responseOf({ status, body, headers }: ActAnswer): Response {
  if (body === undefined) return new Response(null, { status, headers: { ...COMMON_HEADERS, ...headers } });
  return new Response(JSON.stringify(body), {
    status,
    headers: { ...JSON_HEADERS, ...COMMON_HEADERS, ...headers },
  });
}

function methodsByPath(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { path, method } of REST_ROUTES) {
    const full = REST_BASE + path.replace(/\{(\w+)\}/g, ":$1");
    found.set(full, [...(found.get(full) ?? []), method]);
  }
  for (const path of ["/api/openapi.json", "/api/docs", "/"]) found.set(path, ["GET"]);
  return found;
}

function methodNotAllowed(methods: readonly string[]): HttpError {
  const error = new FleetError("INVALID", "the path has no such method", {
    fields: [{ path: "method", expected: methods.join(" or ") }],
  });
  return new HttpError(405, error, { allow: methods.join(", ") });
}

/** The error of a server that has no room for another request. */
export const overload = (): FleetError =>
  new FleetError("UNAVAILABLE", "the gateway has reached its limit of open requests", {
    retryAfterMs: LIMITS.overload_retry_ms,
  });
