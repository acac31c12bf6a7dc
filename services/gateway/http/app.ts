/** The routes of the gateway: the operations of the table, the OpenAPI document and its page. */
import type { HttpBindings } from "@hono/node-server";
import { type Context, Hono } from "hono";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { REST_BASE, type RestRoute } from "../../../shared/protocol/rest/route.ts";
import { REST_ROUTES } from "../../../shared/protocol/rest/routes.ts";
import { isInScope, scopeOf } from "../../../shared/protocol/rest/scopes.ts";
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
import { type ApiOperation, operationsOf, readDocument, type UrlReader, urlReader } from "./document.ts";
import type { HostCheck } from "./host-check.ts";
import { type HttpAnswer, send } from "./http-answer.ts";
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

const COMMON_HEADERS = { "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" };
const HTML_HEADERS = {
  ...COMMON_HEADERS,
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};
const NO_QUERY = new URLSearchParams();
const EVENT_STREAM = "text/event-stream";
const STREAM_HEADERS = {
  ...COMMON_HEADERS,
  "content-type": EVENT_STREAM,
  "cache-control": "no-store",
  "x-accel-buffering": "no",
};
const JSON_HEADERS = {
  ...COMMON_HEADERS,
  "content-type": "application/json",
  "cache-control": "no-store",
};

export function createApp(parts: AppParts): Hono<Env> {
  const app = new Hono<Env>();
  const document = readDocument();
  const operations = operationsOf(document);
  const [text, page] = [JSON.stringify(document), referencePage(document)];
  const shared = { tasks: new TaskLookup(), keys: new IdempotencyKeys(parts.clock) };
  const record = requestRecorder(parts);
  const handle =
    (name: string, work: (c: Context<Env>, facts: RequestFacts) => Promise<HttpAnswer> | HttpAnswer) =>
    async (c: Context<Env>) => {
      const answer = await record(name, c.req.raw, (facts) => {
        parts.checkHost(c.req.raw.headers.get("host"), c.req.raw.headers.get("origin"));
        return work(c, facts);
      });
      return send(answer, c.env);
    };

  for (const route of REST_ROUTES) {
    const readUrl = urlReader(operations.get(route.id) as ApiOperation);
    const path = REST_BASE + route.path.replace(/\{(\w+)\}/g, ":$1");
    app.on(
      route.method,
      path,
      handle(route.id, (c, facts) => answerOperation(parts, shared, { route, readUrl }, c, facts)),
    );
  }
  app.get(
    "/api/openapi.json",
    handle("openapi", () => ({ status: 200, headers: JSON_HEADERS, body: text })),
  );
  app.get(
    "/api/docs",
    handle("docs", () => ({ status: 200, headers: HTML_HEADERS, body: page })),
  );
  app.get(
    "/",
    handle("docs", () => ({ status: 302, headers: { location: "/api/docs" } })),
  );
  app.notFound(
    handle("unknown", (c) => {
      const methods = methodsOf(c.req.path);
      if (methods.length > 0) throw methodNotAllowed(methods);
      throw new FleetError("NOT_FOUND", "there is no such path; /api/docs lists them");
    }),
  );
  return app;
}

async function answerOperation(
  parts: AppParts,
  shared: { readonly tasks: TaskLookup; readonly keys: IdempotencyKeys },
  { route, readUrl }: { readonly route: RestRoute; readonly readUrl: UrlReader },
  c: Context<Env>,
  facts: RequestFacts,
): Promise<HttpAnswer> {
  const { raw } = c.req;
  const { authentication, pool, rates, clock } = parts;
  const identity = await authentication.identify(c.req.header("authorization"), addressOf(c));
  const inPath = c.req.param() as Record<string, string>;
  Object.assign(facts, { tenant: identity.tenant, caller: identity.name, ...inPath });
  const waitMs = rates.take(`${identity.tenant} ${identity.name}`);
  if (waitMs > 0) throw new TooManyRequests("the caller sends too many requests", waitMs);
  if (!isInScope(route, identity.scopes)) throw outOfScope(route, identity);
  const search = raw.url.indexOf("?");
  const query = search === -1 ? NO_QUERY : new URL(raw.url).searchParams;
  const url = readUrl(inPath, query);
  if (route.act.kind === "events" && raw.headers.get("accept")?.includes(EVENT_STREAM) === true)
    return answerEvents(parts, identity, raw, url);
  const body = route.method === "GET" || route.method === "DELETE" ? {} : await readMembers(raw);
  return pool.use(identity, async (caller) => {
    const fleet = new FleetRequests(caller, { clock, signal: raw.signal });
    return answerOf(await act(route, { ...shared, fleet, headers: raw.headers, url, body }));
  });
}

function outOfScope(route: RestRoute, { scopes }: CallerIdentity): FleetError {
  return new FleetError("FORBIDDEN", "the credentials are not for this operation", {
    details: { scopes, needed: [scopeOf(route), route.id] },
  });
}

async function answerEvents(
  { authentication, pool, clock, stopping }: AppParts,
  identity: CallerIdentity,
  request: Request,
  url: Members,
): Promise<HttpAnswer> {
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
    return { status: 200, headers: STREAM_HEADERS, body: stream };
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

const PATHS = [
  ...REST_ROUTES.map(({ path, method }) => ({ path: REST_BASE + path, method })),
  ...["/api/openapi.json", "/api/docs", "/"].map((path) => ({ path, method: "GET" })),
].map(({ path, method }) => ({ form: new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`), method }));

const methodsOf = (path: string): string[] =>
  PATHS.filter(({ form }) => form.test(path)).map(({ method }) => method);

function methodNotAllowed(methods: readonly string[]): HttpError {
  const error = new FleetError("INVALID", "the path has no such method", {
    fields: [{ path: "method", expected: methods.join(" or ") }],
  });
  return new HttpError(405, error, { allow: methods.join(", ") });
}
