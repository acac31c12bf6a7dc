/**
 * Streamable HTTP, for clients that cannot start a process. On loopback only, with a token from a file that only the user can read:
 * other users of the machine, and pages in the user's browser, are refused.
 */
import { createHash, randomBytes, randomUUID, timingSafeEqual } from "node:crypto";
import {
  createServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { readJson, writeOnce } from "../../shared/runtime/process/whole-file.ts";
import { homeOf } from "../../shared/sdk/fleet-home.ts";
import { HttpSessions } from "./http-sessions.ts";
import { createMcpServer } from "./server.ts";
import type { McpSession } from "./session.ts";

const PATH = "/mcp";
const BODY_BYTES_MAX = 4_000_000;

export async function serveHttp(
  { host, port }: { readonly host: string; readonly port: number },
  session: McpSession,
  log: Logger,
): Promise<Stop> {
  const tokenFile = join(homeOf(process.env), "mcp-token.json");
  const token = tokenOf(tokenFile);
  const sessions = new HttpSessions();
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      log.error({ error }, "a request failed");
      if (!response.headersSent) refuse(response, 500, "the request failed; the log has the details");
    });
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refusal = refusalOf(request, server, token);
    if (refusal !== undefined) {
      log.warn({ status: refusal.status, reason: refusal.reason }, "request refused");
      return refuse(response, refusal.status, refusal.reason);
    }
    const id = request.headers["mcp-session-id"];
    const known = typeof id === "string" ? sessions.use(id, response) : undefined;
    if (known !== undefined) return known.handleRequest(request, response);
    if (id !== undefined) return refuse(response, 404, "there is no such session");
    if (!(await sessions.makeRoom())) return refuse(response, 503, "too many sessions");
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (sessionId) => sessions.add(sessionId, transport, response),
    });
    transport.onclose = () => sessions.remove(transport.sessionId ?? "");
    await createMcpServer(session, log).connect(transport as never);
    return transport.handleRequest(request, response);
  }

  await listening(server, host, port);
  const { port: bound } = server.address() as AddressInfo;
  const url = `http://${host.includes(":") ? `[${host}]` : host}:${bound}${PATH}`;
  log.info({ url, token_file: tokenFile }, "MCP over HTTP open");
  return async () => {
    await sessions.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
}

/** The token of this home; made at the first call. */
function tokenOf(path: string): string {
  writeOnce(path, JSON.stringify({ token: randomBytes(32).toString("base64url") }));
  const token = readJson<{ token?: unknown }>(path)?.token;
  if (typeof token === "string" && token.length >= 32) return token;
  throw new StartupError("the file with the token has another form", {
    exitCode: exitCodes.config,
    details: { path },
    hint: "remove it, and a new token is made",
  });
}

interface Refusal {
  readonly status: number;
  readonly reason: string;
}

/** undefined: the request is the user's own. */
function refusalOf(
  { headers, url = "" }: IncomingMessage,
  server: HttpServer,
  token: string,
): Refusal | undefined {
  const { port } = server.address() as AddressInfo;
  const own = [`127.0.0.1:${port}`, `localhost:${port}`, `[::1]:${port}`];
  // A page whose name was rebound to this machine sends its own name.
  if (!own.includes(headers.host ?? "")) return { status: 403, reason: "the Host is not this server" };
  const { origin } = headers;
  if (origin !== undefined && !own.some((host) => origin === `http://${host}`))
    return { status: 403, reason: "the Origin is not this server" };
  if (url !== PATH) return { status: 404, reason: `the path is ${PATH}` };
  const [, given = ""] = /^Bearer (\S+)$/.exec(headers.authorization ?? "") ?? [];
  const hash = (text: string) => createHash("sha256").update(text).digest();
  if (!timingSafeEqual(hash(given), hash(token)))
    return { status: 401, reason: "the token is missing or wrong" };
  if (Number(headers["content-length"] ?? 0) > BODY_BYTES_MAX)
    return { status: 413, reason: "the request is too large" };
  return undefined;
}

function refuse(response: ServerResponse, status: number, reason: string): void {
  const headers = {
    "content-type": "application/json",
    ...(status === 401 && { "www-authenticate": "Bearer" }),
  };
  response.writeHead(status, headers).end(JSON.stringify({ error: reason }));
}

async function listening(server: HttpServer, host: string, port: number): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, resolve);
    });
  } catch (error) {
    throw new StartupError("the address of the MCP server cannot be used", {
      exitCode: exitCodes.unavailable,
      details: { host, port, problem: (error as NodeJS.ErrnoException).code },
      hint: "choose another one with FLEET_MCP_HTTP",
      cause: error,
    });
  }
}
