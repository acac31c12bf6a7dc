/** The gateway as a process of its own: its bus is that of every client. */
import { apiKeysFolder } from "../../shared/bus/api-keys.ts";
import { serveOps } from "../../shared/runtime/observability/ops-server.ts";
import { startTracing } from "../../shared/runtime/observability/tracing.ts";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { createClosers } from "../../shared/runtime/process/shutdown.ts";
import { exitCodes, StartupError } from "../../shared/runtime/process/startup.ts";
import type { ConfigOf } from "../../shared/runtime/settings/config.ts";
import { discoverBus, isPrivateBus, tlsFor } from "../../shared/sdk/address.ts";
import { homeOf } from "../../shared/sdk/fleet-home.ts";
import type { gatewayProcessFields } from "./config.ts";
import { start } from "./gateway.ts";

export async function startProcess(
  context: ServiceContext,
  config: ConfigOf<typeof gatewayProcessFields>,
): Promise<Stop> {
  const { log, metrics, clock } = context;
  log.level = config.logLevel;
  const closers = createClosers(log, clock);
  const stop = () => closers.close({ timeoutMs: config.stopTimeout });
  try {
    const tracing = await startTracing({ service: "gateway", endpoint: config.otlpEndpoint, log });
    closers.add("tracing", () => tracing.stop());
    const { url, expected } = discoverBus(process.env);
    if (config.gatewayIssuers !== undefined && !isPrivateBus(url, process.env)) throw readableTokens(url);
    const gateway = await start(context, {
      settings: config,
      bus: { url, expected, ...tlsFor(url, process.env) },
      // The signing service verifies the token again and gives the rights, so the gateway has none to give.
      credentialsOfToken: async (token) => ({ token }),
      keysFolder: apiKeysFolder(homeOf(process.env), process.env),
      ownCredentials: config.gatewayCreds === undefined ? undefined : { credsFile: config.gatewayCreds },
      stopTimeoutMs: config.stopTimeout,
    });
    closers.add("gateway", gateway.stop);
    const { opsHost: host, opsPort: port } = config;
    const ops = await serveOps({
      host,
      port,
      metrics: metrics.registry,
      log,
      checks: { issuers: async () => gateway.health() },
    });
    closers.add("operations port", () => ops.stop());
    return stop;
  } catch (error) {
    await stop().catch((second: unknown) =>
      log.error({ error: second }, "closing after a failed start failed"),
    );
    throw error;
  }
}

function readableTokens(url: string): StartupError {
  return new StartupError("tokens of callers are not sent to another machine without TLS", {
    exitCode: exitCodes.config,
    details: { url },
    hint: "set FLEET_URL to a tls:// address, or FLEET_NATS_CA",
  });
}
