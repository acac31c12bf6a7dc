/** The server: its socket, its certificate, its limits and its end. */

import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer as createPlainServer, type Server } from "node:http";
import { createServer as createTlsServer, Server as TlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { getRequestListener } from "@hono/node-server";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";

/** Connections beyond it are closed at once. */
const CONNECTIONS_MAX = 1_024;
const HEADERS_MS = 10_000;
const REQUEST_MS = 30_000;
const KEEP_ALIVE_MS = 15_000;
const HEADERS_BYTES_MAX = 16_384;

export interface ServerSettings {
  readonly host: string;
  readonly port: number;
  readonly tls: { readonly certFile: string; readonly keyFile: string } | undefined;
}

export interface HttpServer {
  readonly port: number;
  /** New connections get the certificate that the files now have. */
  reloadCertificate(): void;
  /** Ends idle connections at once, and the others after their answer, within `drainMs`. */
  stop(drainMs: number): Promise<void>;
}

type Fetch = Parameters<typeof getRequestListener>[0];

/** `fetchFor`: made when the port is known. Throws StartupError. */
export async function serveHttps(
  { host, port, tls }: ServerSettings,
  log: Logger,
  fetchFor: (port: number) => Fetch,
): Promise<HttpServer> {
  const options = {
    maxHeaderSize: HEADERS_BYTES_MAX,
    headersTimeout: HEADERS_MS,
    requestTimeout: REQUEST_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
  };
  const server: Server =
    tls === undefined ? createPlainServer(options) : createTlsServer({ ...options, ...certificateOf(tls) });
  server.maxConnections = CONNECTIONS_MAX;
  await listening(server, host, port);
  const { port: bound } = server.address() as AddressInfo;
  const listener = getRequestListener(fetchFor(bound), { overrideGlobalObjects: false });
  server.on("request", (request, response) => void listener(request, response));
  server.on("error", (error) => log.error({ error }, "the server failed"));
  return {
    port: bound,
    reloadCertificate() {
      if (tls !== undefined && server instanceof TlsServer) server.setSecureContext(certificateOf(tls));
    },
    async stop(drainMs) {
      const closed = once(server, "close");
      server.close();
      server.closeIdleConnections();
      const timer = setTimeout(() => server.closeAllConnections(), drainMs);
      await closed;
      clearTimeout(timer);
    },
  };
}

function certificateOf({ certFile, keyFile }: NonNullable<ServerSettings["tls"]>) {
  try {
    return { cert: readFileSync(certFile), key: readFileSync(keyFile), minVersion: "TLSv1.2" as const };
  } catch (error) {
    throw new StartupError("the certificate of the gateway cannot be read", {
      exitCode: exitCodes.config,
      details: { certificate: certFile, key: keyFile, problem: (error as NodeJS.ErrnoException).code },
      hint: "check FLEET_GATEWAY_CERT and FLEET_GATEWAY_KEY",
      cause: error,
    });
  }
}

async function listening(server: Server, host: string, port: number): Promise<void> {
  try {
    server.listen(port, host);
    await once(server, "listening");
  } catch (error) {
    throw new StartupError("the address of the gateway cannot be used", {
      exitCode: exitCodes.unavailable,
      details: { host, port, problem: (error as NodeJS.ErrnoException).code },
      hint: "choose another one with FLEET_GATEWAY_HOST and FLEET_GATEWAY_PORT",
      cause: error,
    });
  }
}
