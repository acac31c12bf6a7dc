// `fleet agents list`: the agents that are alive, their tasks, and the owners that have gone silent.

import type { Command } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly limit?: number;
  readonly cursor?: string;
}

export function addAgents(program: Command, action: ActionFactory): void {
  const group = program.command("agents").description("List agents.");
  const command = group
    .command("list")
    .summary("List agents with their tasks, and owners that are silent.")
    .description(
      "List the agents that send heartbeats, with their tasks, and the owners of tasks that send none.",
    )
    .addOption(limitOption(LIMITS.agents_limit_default, LIMITS.agents_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(command, (fleet) => ({
    "All agents": `${fleet} agents list`,
    "The silent ones, in a script": `${fleet} agents list --json | jq -r '.agents[] | select(.state == "silent").agent_id'`,
  }));
}

async function list(session: Session, { limit, cursor }: Flags): Promise<void> {
  const client = await session.client();
  const page = await client.admin.agents({ limit, cursor, ...session.deadline });
  const { renderAgents } = await import("../../rendering/operations/agents.ts");
  const next = nextPage(session, page.cursor);
  await session.show(page, () => renderAgents(page, next, session.view));
}
