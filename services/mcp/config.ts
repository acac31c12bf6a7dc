/** The settings of an MCP server. Its agent, task and fleet are those of every client. */
import type { ConfigOf, Environment } from "../../shared/runtime/settings/config.ts";
import { ConfigError, optional, readConfig, text } from "../../shared/runtime/settings/config.ts";
import { processFields } from "../../shared/runtime/settings/process-settings.ts";
import { startFields } from "../../shared/sdk/agent/runner-environment.ts";

export const mcpFields = {
  logLevel: processFields.logLevel,
  task: startFields.task,
  agentType: startFields.agentType,
  http: optional(
    text("FLEET_MCP_HTTP", {
      description: "Address of the MCP server, such as 127.0.0.1:4290; on loopback only",
      defaultNote: "none: it talks over standard input and output",
    }),
  ),
} as const;

export interface McpConfig extends Omit<ConfigOf<typeof mcpFields>, "http"> {
  readonly http: { readonly host: string; readonly port: number } | undefined;
  /** The fence under which a runner started the agent. */
  readonly fence: number | undefined;
}

const LOOPBACK = new Set(["127.0.0.1", "::1", "localhost"]);

/** Throws ConfigError. */
export function readMcpConfig(env: Environment): McpConfig {
  const config = readConfig(mcpFields, env);
  const fence = Number(env.FLEET_FENCE);
  const isStarted = config.task !== undefined && Number.isSafeInteger(fence) && fence > 0;
  return { ...config, http: addressOf(config.http), fence: isStarted ? fence : undefined };
}

function addressOf(given: string | undefined): McpConfig["http"] {
  if (given === undefined) return undefined;
  const [, host = "127.0.0.1", port = ""] = /^(?:\[?([^\]]+?)\]?:)?(\d{1,5})$/.exec(given) ?? [];
  if (port === "" || Number(port) > 65_535 || !LOOPBACK.has(host)) {
    const expected =
      "a port, or a loopback address with a port; other machines reach it through a proxy with TLS";
    throw new ConfigError([{ name: "FLEET_MCP_HTTP", expected, got: given }]);
  }
  return { host, port: Number(port) };
}
