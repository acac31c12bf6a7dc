/**
 * The gateway: the fleet over HTTP. It has no rights of its own. It acts on the bus as its caller, over a connection
 * with the caller's credentials, so that the bus decides what each caller may do.
 */
import { type Issuers, openIssuers } from "../../shared/bus/access/issuers/issuers.ts";
import { type BusCredentials, type ConnectBusOptions, connectBus } from "../../shared/bus/connection.ts";
import { DEFAULT_TENANT } from "../../shared/protocol/ids.ts";
import type { Health } from "../../shared/runtime/observability/ops-server.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import { DenialReporter } from "../../shared/sdk/access-log/denial-reporter.ts";
import { Redaction } from "../../shared/sdk/redaction/redaction.ts";
import { ApiKeyIdentities } from "./callers/api-key-identity.ts";
import { Authentication } from "./callers/authentication.ts";
import { Buckets } from "./callers/bucket.ts";
import { OpenCounts } from "./callers/open-count.ts";
import { CallerPool } from "./callers/pool.ts";
import { type CredentialsOfToken, TokenIdentities } from "./callers/token-identity.ts";
import { type GatewaySettings, readIssuersFile } from "./config.ts";
import { createApp } from "./http/app.ts";
import { hostCheck } from "./http/host-check.ts";
import { type HttpListener, readHttpListener } from "./http/listener.ts";
import { serveHttps } from "./http/server.ts";

/** Of one client. A page or a program needs one stream; a caller with many open requests would only queue them in the fleet. */
const OPEN_REQUESTS_MAX = 256;
const STREAMS_MAX = 32;
/** The name in the access log of what the gateway reports of callers that it does not know. */
export const GATEWAY_NAME = "fleet-gateway";

export interface GatewayOptions {
  readonly settings: GatewaySettings;
  readonly bus: Pick<ConnectBusOptions, "url" | "tls" | "expected">;
  /** The folder of the API keys. */
  readonly keysFolder: string;
  /** The credentials for the bus of the holder of a token. undefined: the bus has none, so tokens would be no wall. */
  readonly credentialsOfToken: CredentialsOfToken | undefined;
  /**
   * The gateway's own credentials, with which it reports callers without valid ones to the access log. undefined: it has none, and such
   * requests are only in its log. null: the bus needs none.
   */
  readonly ownCredentials: BusCredentials | null | undefined;
  readonly stopTimeoutMs: number;
}

export interface Gateway {
  readonly url: string;
  /** Whether the keys of all issuers are known. */
  health(): Health;
  /** The files of the certificate have changed. */
  reloadCertificate(): void;
  readonly stop: Stop;
}

/** Throws StartupError. */
export async function start(
  context: ServiceContext,
  { settings, bus, keysFolder, credentialsOfToken, ownCredentials, stopTimeoutMs }: GatewayOptions,
): Promise<Gateway> {
  const { log, clock } = context;
  const listener = readHttpListener(settings);
  const issuers = issuersOf(context, settings);
  if (issuers !== undefined && credentialsOfToken === undefined) throw withoutWall();
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
  const denials = reporterOf(context, bus, ownCredentials);
  const tokens = issuers && credentialsOfToken && new TokenIdentities(issuers, credentialsOfToken, context);
  const authentication = new Authentication(new ApiKeyIdentities(keysFolder, clock, log), tokens, clock);
  const rates = new Buckets(settings.gatewayRate, 2 * settings.gatewayRate, clock);
  // Its own environment has none of the secrets of its callers.
  const redaction = new Redaction({
    mode: settings.redaction,
    settings: { ...settings, secretNames: [] },
    env: {},
    log,
  });
  const stopping = new AbortController();
  const server = await serveHttps(listener, log, (port) => {
    const checkHost = hostCheck({ ...listener, port, names: [] });
    const app = createApp({
      ...context,
      authentication,
      denials,
      pool,
      rates,
      requests: new OpenCounts(OPEN_REQUESTS_MAX),
      streams: new OpenCounts(STREAMS_MAX),
      checkHost,
      redaction,
      stopping: stopping.signal,
    });
    return (request, env) => app.fetch(request, env);
  }).catch(async (error: unknown) => {
    await pool.close();
    await denials?.stop();
    await issuers?.stop();
    throw error;
  });
  const url = urlOf(listener, server.port);
  log.info({ url }, "gateway started");
  return {
    url,
    health: () => issuers?.health() ?? { ok: true, detail: "no issuers" },
    reloadCertificate: () => server.reloadCertificate(),
    async stop() {
      stopping.abort();
      await server.stop(stopTimeoutMs / 2);
      await pool.close();
      await denials?.stop();
      await issuers?.stop();
      log.info("gateway stopped");
    },
  };
}

/** A report needs no rights but those of an observer. */
function reporterOf(
  { log, clock }: ServiceContext,
  bus: GatewayOptions["bus"],
  credentials: GatewayOptions["ownCredentials"],
): DenialReporter | undefined {
  if (credentials === undefined) return undefined;
  const [tenant, name] = [DEFAULT_TENANT, GATEWAY_NAME];
  const own = credentials !== null && { credentials };
  const connect = () => connectBus({ ...bus, name: "gateway", tenant, identity: name, log, ...own });
  return new DenialReporter({ connect, tenant, name, clock, log });
}

function issuersOf(context: ServiceContext, { gatewayIssuers: path }: GatewaySettings): Issuers | undefined {
  return path === undefined ? undefined : openIssuers(context, readIssuersFile(path));
}

function withoutWall(): StartupError {
  return new StartupError("tokens need a bus with credentials", {
    exitCode: exitCodes.config,
    hint: "remove FLEET_GATEWAY_ISSUERS, or FLEET_AUTH=off",
  });
}

function urlOf({ scheme, host }: HttpListener, port: number): string {
  const named = host === "0.0.0.0" || host === "127.0.0.1" ? "127.0.0.1" : host === "::" ? "localhost" : host;
  return `${scheme}://${named.includes(":") ? `[${named}]` : named}:${port}`;
}
