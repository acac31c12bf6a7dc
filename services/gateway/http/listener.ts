/** The address of the gateway. Beyond loopback other machines reach it, so without TLS it does not start. */
import { isLoopback as isLoopbackHost } from "../../../shared/runtime/loopback.ts";
import { exitCodes, StartupError } from "../../../shared/runtime/process/startup.ts";
import type { GatewaySettings } from "../config.ts";
import type { ServerSettings } from "./server.ts";

export interface HttpListener extends ServerSettings {
  readonly scheme: "http" | "https";
  readonly isLoopback: boolean;
}

/** Throws StartupError. */
export function readHttpListener(settings: GatewaySettings): HttpListener {
  const { gatewayPort, gatewayCert: certFile, gatewayKey: keyFile } = settings;
  const host = settings.gatewayHost.replace(/^\[(.*)\]$/, "$1");
  if ((certFile === undefined) !== (keyFile === undefined))
    throw refused(
      "a certificate of the gateway needs its key",
      { host },
      "set FLEET_GATEWAY_CERT and FLEET_GATEWAY_KEY",
    );
  const tls = certFile === undefined || keyFile === undefined ? undefined : { certFile, keyFile };
  const isLoopback = isLoopbackHost(host);
  if (tls === undefined && !isLoopback)
    throw refused(
      "a gateway beyond loopback needs TLS",
      { host },
      "set FLEET_GATEWAY_CERT and FLEET_GATEWAY_KEY, or leave FLEET_GATEWAY_HOST at 127.0.0.1",
    );
  return {
    host,
    port: Math.max(0, gatewayPort ?? 0),
    tls,
    scheme: tls === undefined ? "http" : "https",
    isLoopback,
  };
}

function refused(text: string, details: Readonly<Record<string, unknown>>, hint: string): StartupError {
  return new StartupError(text, { exitCode: exitCodes.config, details, hint });
}
