/** The requests of MCP clients: tools, resources and prompts. A refusal is an answer that the model can read. */
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import {
  CallToolRequestSchema,
  type CallToolResult,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { FleetError, invalid } from "../../shared/protocol/errors.ts";
import {
  isMcpTool,
  MCP_TOOL_DESCRIPTIONS,
  MCP_TOOL_NAMES,
  MCP_TOOL_SCHEMAS,
  type McpToolCall,
  type McpToolName,
  mcpToolJsonSchema,
} from "../../shared/protocol/mcp-tools.ts";
import { validate } from "../../shared/protocol/validation.ts";
import type { Logger } from "../../shared/runtime/observability/log.ts";
import { withSpan } from "../../shared/runtime/observability/tracing.ts";
import { packageVersion } from "../../shared/runtime/process/installation.ts";
import { MCP_PROMPTS, promptMessage } from "./prompts.ts";
import { listResources, RESOURCE_TEMPLATES, readResource } from "./resources.ts";
import type { McpSession } from "./session.ts";

type Run = (session: McpSession, call: unknown) => Promise<object | string>;

function tool<Name extends McpToolName>(
  name: Name,
  run: (session: McpSession, call: McpToolCall<Name>) => Promise<object | string>,
): Run {
  return (session, call) => run(session, validate(MCP_TOOL_SCHEMAS[name], call ?? {}) as McpToolCall<Name>);
}

/** Complete by compilation. */
const TOOLS: Readonly<Record<McpToolName, Run>> = {
  checkpoint: tool("checkpoint", (session, call) => session.checkpoint(call)),
  resume: tool("resume", (session, call) => session.resume(call)),
  handoff: tool("handoff", (session, call) => session.handoff(call)),
  search: tool("search", (session, call) => session.search(call)),
  history: tool("history", (session, call) => session.history(call)),
  report_progress: tool("report_progress", (session, call) => session.reportProgress(call)),
};

export function createMcpServer(session: McpSession, log: Logger): Server {
  const server = new Server(
    { name: "fleet", version: packageVersion() },
    { capabilities: { tools: {}, resources: {}, prompts: {} } },
  );
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: MCP_TOOL_NAMES.map((name) => ({
      name,
      description: MCP_TOOL_DESCRIPTIONS[name],
      inputSchema: { type: "object" as const, ...mcpToolJsonSchema(name) },
    })),
  }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }) =>
    withSpan(`mcp ${isMcpTool(params.name) ? params.name : "unknown"}`, {}, () =>
      callTool(session, log, params.name, params.arguments),
    ),
  );
  server.setRequestHandler(ListResourcesRequestSchema, async () => ({
    resources: await listResources(session),
  }));
  server.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
    resourceTemplates: RESOURCE_TEMPLATES,
  }));
  server.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }) => ({
    contents: [await readResource(session, uri)],
  }));
  server.setRequestHandler(ListPromptsRequestSchema, () => ({ prompts: MCP_PROMPTS }));
  server.setRequestHandler(GetPromptRequestSchema, async ({ params }) => ({
    messages: [
      {
        role: "user" as const,
        content: {
          type: "text" as const,
          text: await promptMessage(session, params.name, params.arguments ?? {}),
        },
      },
    ],
  }));
  return server;
}

async function callTool(
  session: McpSession,
  log: Logger,
  name: string,
  call: unknown,
): Promise<CallToolResult> {
  try {
    if (!isMcpTool(name)) throw invalid("name", `one of ${MCP_TOOL_NAMES.join(", ")}`, name);
    const result = await TOOLS[name](session, call);
    log.info({ tool: name }, "tool called");
    const text = typeof result === "string" ? result : JSON.stringify(result, null, 2);
    return { content: [{ type: "text", text }] };
  } catch (error) {
    const known =
      error instanceof FleetError
        ? error
        : new FleetError("INTERNAL", "the tool failed; the log of the MCP server has the details");
    if (known.code === "INTERNAL") log.error({ tool: name, error }, "tool failed");
    else log.info({ tool: name, code: known.code }, "tool refused");
    return {
      isError: true,
      content: [{ type: "text", text: JSON.stringify({ error: known.toBody() }, null, 2) }],
    };
  }
}
