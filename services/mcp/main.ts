/** Runs an MCP server for one agent. Standard output is its protocol, so its log goes to standard error. */
import { createLogger } from "../../shared/runtime/observability/log.ts";
import { runMain } from "../../shared/runtime/process/main.ts";
import { readMcpConfig } from "./config.ts";
import { start } from "./mcp.ts";

await runMain({
  service: "fleet-mcp",
  log: createLogger({ service: "fleet-mcp", destination: process.stderr }),
  start: (context) => start(context, readMcpConfig(process.env)),
});
