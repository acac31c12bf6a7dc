// The operations port of a process: /metrics for Prometheus, /healthz for "is it alive" (without checks:
// restarting a service does not fix its database), /readyz for "can it work now". Plain node:http, because
// the answer must not depend on a part that may be broken.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Stop } from "../process/service.ts";
import { exitCodes, StartupError } from "../process/startup.ts";
import type { Logger } from "./log.ts";
import type { Exposition } from "./metrics.ts";

export interface Health {
  readonly ok: boolean;
  readonly detail: string;
}

export type HealthCheck = () => Promise<Health>;

export interface OpsOptions {
  /** Default 127.0.0.1: metrics are private unless configured otherwise. */
  host?: string | undefined;
  /** 0 is a random port; null or undefined means no port. */
  port?: number | null | undefined;
  metrics: Exposition;
  /** The checks that must pass for the service to be ready, by name. */
  checks: Readonly<Record<string, HealthCheck>>;
  /** A check that takes longer fails. Default 2 s. */
  checkTimeoutMs?: number;
  /** The facts by which a program of this machine recognises the process. Other machines do not get them. */
  identity?: Readonly<Record<string, string | number | undefined>>;
  log: Logger;
  /** The hint of the error when the port is taken. */
  takenHint?: string;
}

/** Throws StartupError when the port cannot be had. The port is 0 when disabled. */
export async function serveOps(options: OpsOptions): Promise<{ port: number; stop: Stop }> {
  const { host = "127.0.0.1", port, log, takenHint } = options;
  if (port === null || port === undefined) return { port: 0, stop: async () => {} };
  const server = createServer((request, response) => {
    answer(request, response, options).catch((error: unknown) => {
      log.error({ error }, "operations request failed");
      send(response, 500, "text/plain", "internal error\n");
    });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => reject(portProblem(error, { host, port, takenHint })));
    server.listen(port, host, resolve);
  });
  server.on("error", (error) => log.error({ error }, "operations server failed"));
  const bound = (server.address() as AddressInfo).port;
  log.info({ host, port: bound }, "operations port open");
  return {
    port: bound,
    stop: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        // A scraper keeps its connection open; waiting for it would use up the shutdown deadline.
        server.closeAllConnections();
      }),
  };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: OpsOptions,
): Promise<void> {
  if (request.method !== "GET" && request.method !== "HEAD")
    return send(response, 405, "text/plain", "GET only\n");
  switch (request.url?.split("?")[0]) {
    case "/metrics":
      return send(response, 200, options.metrics.contentType, await options.metrics.metrics());
    case "/healthz":
      return send(
        response,
        200,
        "application/json",
        JSON.stringify({ ok: true, ...(isLocal(request) && options.identity) }),
      );
    case "/readyz": {
      const report = await readiness(options);
      return send(response, report.ok ? 200 : 503, "application/json", JSON.stringify(report));
    }
    default:
      return send(response, 404, "text/plain", "try /metrics, /healthz or /readyz\n");
  }
}

const LOOPBACK = new Set(["127.0.0.1", "::1", "::ffff:127.0.0.1"]);

const isLocal = ({ socket }: IncomingMessage): boolean => LOOPBACK.has(socket.remoteAddress ?? "");

async function readiness({ checks, checkTimeoutMs = 2_000 }: OpsOptions) {
  const results = await Promise.all(
    Object.entries(checks).map(
      async ([name, check]) => [name, await checked(check, checkTimeoutMs)] as const,
    ),
  );
  return { ok: results.every(([, result]) => result.ok), checks: Object.fromEntries(results) };
}

async function checked(check: HealthCheck, timeoutMs: number): Promise<Health> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<Health>((resolve) => {
    timer = setTimeout(() => resolve({ ok: false, detail: "no answer in time" }), timeoutMs);
  });
  try {
    return await Promise.race([(async () => check())(), late]);
  } catch (error) {
    return { ok: false, detail: error instanceof Error ? error.message : String(error) };
  } finally {
    clearTimeout(timer);
  }
}

function send(response: ServerResponse, status: number, type: string, body: string): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(body);
}

const portProblems: Record<string, { text: string; hint: string }> = {
  EADDRINUSE: {
    text: "the operations port is taken",
    hint: "stop the process that uses it, or set FLEET_OPS_PORT",
  },
  EACCES: { text: "the operations port is not allowed", hint: "set FLEET_OPS_PORT to a port above 1023" },
  EADDRNOTAVAIL: {
    text: "the operations host is not an address of this machine",
    hint: "set FLEET_OPS_HOST to one that is",
  },
  ENOTFOUND: {
    text: "the operations host is unknown",
    hint: "set FLEET_OPS_HOST to an address of this machine",
  },
};

function portProblem(
  error: NodeJS.ErrnoException,
  { host, port, takenHint }: { host: string; port: number; takenHint: string | undefined },
): Error {
  const problem = portProblems[error.code ?? ""];
  if (problem === undefined) return error;
  const { text } = problem;
  const hint = (error.code === "EADDRINUSE" && takenHint) || problem.hint;
  return new StartupError(text, {
    exitCode: exitCodes.unavailable,
    details: { host, port },
    hint,
    cause: error,
  });
}
