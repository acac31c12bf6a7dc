/** The MCP server: the fleet as tools, resources and prompts of a model, for one agent. */
import { randomBytes } from "node:crypto";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import type { ServiceContext, Stop } from "../../shared/runtime/process/service.ts";
import { connect } from "../../shared/sdk/sdk.ts";
import type { McpConfig } from "./config.ts";
import { serveHttp } from "./http.ts";
import { createMcpServer } from "./server.ts";
import { McpSession } from "./session.ts";

export async function start({ log }: Pick<ServiceContext, "log">, config: McpConfig): Promise<Stop> {
  log.level = config.logLevel;
  const fleet = await connect({
    role: "orchestrator",
    isCapture: true,
    // A new process is a new agent: a server that was replaced must not write in the name of its successor.
    defaultAgentId: `mcp-${randomBytes(6).toString("hex")}`,
    log,
    onWarning: ({ code, text, details }) => log.warn({ code, text, details }, "warning of the client"),
  });
  const session = new McpSession(fleet, config, log);
  const closers: Stop[] = [];
  if (config.http !== undefined) {
    closers.push(await serveHttp(config.http, session, log));
  } else {
    const server = createMcpServer(session, log);
    // The client of a model ends its server by closing the input.
    server.onclose = () => process.kill(process.pid, "SIGTERM");
    process.stdin.once("end", () => void server.close());
    await server.connect(new StdioServerTransport());
    closers.push(() => server.close());
  }
  log.info({ agent_id: fleet.agentId, task_id: config.task ?? null }, "MCP server started");
  return async () => {
    for (const close of closers) await close();
    await session.close();
    await fleet.close();
    log.info("MCP server stopped");
  };
}
