// `fleet agents list`: which agents there are, what they are at, and who has gone silent with a task in hand.

import type { Command } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly limit?: number;
  readonly cursor?: string;
}

export function addAgents(program: Command, action: ActionFactory): void {
  const group = program.command("agents").description("Look at agents.");
  const command = group
    .command("list")
    .summary("List agents: what they are at, and who is silent.")
    .description(
      "List the agents that say that they live, with the task that each is at, and the owners of tasks that say nothing.",
    )
    .addOption(limitOption(LIMITS.agents_limit_default, LIMITS.agents_limit_max))
    .option("--cursor <cursor>", "go on after an earlier page")
    .action(action(list));
  withExamples(command, (fleet) => ({
    "Who is at work": `${fleet} agents list`,
    "Who has gone silent, in a script": `${fleet} agents list --json | jq -r '.agents[] | select(.state == "silent").agent_id'`,
  }));
}

async function list(session: Session, { limit, cursor }: Flags): Promise<void> {
  const client = await session.client();
  const page = await client.admin.agents({ limit, cursor, ...session.deadline });
  const { renderAgents } = await import("../../rendering/operations/agents.ts");
  const next = nextPage(session, page.cursor);
  await session.show(page, () => renderAgents(page, next, session.view));
}
