/** The routes of the gateway: the operations of the table, the OpenAPI document and its page. */
import { type Context, Hono } from "hono";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { REST_BASE } from "../../../shared/protocol/rest/route.ts";
import { REST_ROUTES } from "../../../shared/protocol/rest/routes.ts";
import type { ServiceContext } from "../../../shared/runtime/process/service.ts";
import { IdempotencyKeys } from "../acts/idempotency-key.ts";
import { TaskLookup } from "../acts/task-lookup.ts";
import { type ApiOperation, operationsOf, readDocument, urlReader } from "./document.ts";
import type { HostCheck } from "./host-check.ts";
import { type HttpAnswer, send } from "./http-answer.ts";
import { answerOperation, COMMON_HEADERS, type Env, JSON_HEADERS, type OperationParts } from "./operation.ts";
import { HttpError } from "./problem.ts";
import { referencePage } from "./reference-page.ts";
import { type RequestFacts, requestRecorder } from "./request-recorder.ts";

export interface AppParts extends OperationParts, ServiceContext {
  readonly checkHost: HostCheck;
}

const HTML_HEADERS = {
  ...COMMON_HEADERS,
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
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
