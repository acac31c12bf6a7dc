/**
 * The gateway: the fleet over HTTP. It has no rights of its own. It acts on the bus as its caller, over a connection
 * with the caller's credentials, so that the bus decides what each caller may do.
 */
import { type ConnectBusOptions, connectBus } from "../../shared/bus/connection.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { ApiKeyIdentities } from "./callers/api-key-identity.ts";
import { Authentication } from "./callers/authentication.ts";
import { Buckets } from "./callers/bucket.ts";
import { CallerPool } from "./callers/pool.ts";
import type { GatewaySettings } from "./config.ts";
import { createApp } from "./http/app.ts";
import { hostCheck } from "./http/host-check.ts";
import { type HttpListener, readHttpListener } from "./http/listener.ts";
import { serveHttps } from "./http/server.ts";

export interface GatewayOptions {
  readonly settings: GatewaySettings;
  readonly bus: Pick<ConnectBusOptions, "url" | "tls" | "expected">;
  /** The folder of the API keys. */
  readonly keysFolder: string;
  readonly stopTimeoutMs: number;
}

export interface Gateway {
  readonly url: string;
  readonly stop: Stop;
}

/** Throws StartupError. */
export async function start(
  context: ServiceContext,
  { settings, bus, keysFolder, stopTimeoutMs }: GatewayOptions,
): Promise<Gateway> {
  const { log, clock } = context;
  const listener = readHttpListener(settings);
  const pool = new CallerPool(
    ({ tenant, name }, credentials) =>
      connectBus({
        ...bus,
        name: `gateway/${tenant}/${name}`,
        tenant,
        identity: name,
        log,
        ...(credentials !== undefined && { credentials }),
      }),
    context,
  );
  const authentication = new Authentication(new ApiKeyIdentities(keysFolder, clock, log), clock);
  const rates = new Buckets(settings.gatewayRate, 2 * settings.gatewayRate, clock);
  const stopping = new AbortController();
  const server = await serveHttps(listener, log, (port) => {
    const checkHost = hostCheck({ ...listener, port, names: [] });
    const app = createApp({
      ...context,
      authentication,
      pool,
      rates,
      checkHost,
      stopping: stopping.signal,
    });
    return (request, env) => app.fetch(request, env);
  }).catch(async (error: unknown) => {
    await pool.close();
    throw error;
  });
  const url = urlOf(listener, server.port);
  log.info({ url }, "gateway started");
  return {
    url,
    async stop() {
      stopping.abort();
      await server.stop(stopTimeoutMs / 2);
      await pool.close();
      log.info("gateway stopped");
    },
  };
}

function urlOf({ scheme, host }: HttpListener, port: number): string {
  const named = host === "0.0.0.0" || host === "127.0.0.1" ? "127.0.0.1" : host === "::" ? "localhost" : host;
  return `${scheme}://${named.includes(":") ? `[${named}]` : named}:${port}`;
}
