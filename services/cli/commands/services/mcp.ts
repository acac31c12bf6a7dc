// `fleet mcp`: runs an MCP server as a child. Standard input and output are its protocol, so they pass through untouched.

import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { programUrl } from "../../../../shared/runtime/process/installation.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly http?: string | true;
  readonly task?: string;
  readonly type?: string;
}

const MAIN = fileURLToPath(programUrl("../../../mcp/main.ts", import.meta.url));
const HTTP_DEFAULT = "127.0.0.1:4290";

export function addMcp(program: Command, action: ActionFactory): void {
  const command = program
    .command("mcp")
    .summary("Run an MCP server, which gives a model the fleet as tools.")
    .description(
      "Run an MCP server for one agent, over standard input and output, until its client ends. Its tools: checkpoint, resume, handoff, search, history, report_progress. Entries for agent programs are in deploy/agents.",
    )
    .option("-t, --task <id>", "the task of the agent (FLEET_TASK)")
    .option("--type <type>", "the type of the agent (FLEET_AGENT_TYPE, else implementation)")
    .option("--http [address]", `serve HTTP instead, on loopback (FLEET_MCP_HTTP; default ${HTTP_DEFAULT})`)
    .action(action(mcp));
  withExamples(command, (fleet) => ({
    "As an agent program starts it": `${fleet} mcp`,
    "For one task": `${fleet} mcp --task auth --type qa`,
    "Over HTTP, with the token in the file that its log names": `${fleet} mcp --http 127.0.0.1:4290`,
  }));
}

async function mcp(session: Session, { http, task, type }: Flags): Promise<void> {
  const { runService } = await import("./service-process.ts");
  const { settings, context } = session;
  session.exitCode = await runService(MAIN, {
    ...context.env,
    ...(settings.url !== undefined && { FLEET_URL: settings.url }),
    ...(settings.tenant !== undefined && { FLEET_TENANT: settings.tenant }),
    ...(settings.agent !== undefined && { FLEET_AGENT_ID: settings.agent }),
    ...(task !== undefined && { FLEET_TASK: task }),
    ...(type !== undefined && { FLEET_AGENT_TYPE: type }),
    ...(http !== undefined && { FLEET_MCP_HTTP: http === true ? HTTP_DEFAULT : http }),
  });
}
