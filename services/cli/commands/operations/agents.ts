// `fleet agents`: the agents that are alive, their tasks and the owners that have gone silent; a restart of a runner's agent, and a
// request for its checkpoint.

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
  const group = program
    .command("agents")
    .description("List agents, restart them, and ask them for a checkpoint.");
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
  addRestart(group, action);
  addAsk(group, action);
}

function addRestart(group: Command, action: ActionFactory): void {
  const command = group
    .command("restart")
    .summary("Restart an agent of a runner, which continues its own session.")
    .description(
      "Stop an agent that a runner started in a tmux window, and start it again with its program's option to continue a session. Five seconds later it is asked for a checkpoint. It keeps its task.",
    )
    .argument("<agent>", "the agent")
    .action(action(restart));
  withExamples(command, (fleet) => ({ "An agent that hangs": `${fleet} agents restart qa-0f3a2b` }));
}

function addAsk(group: Command, action: ActionFactory): void {
  const command = group
    .command("ask")
    .summary("Ask an agent of a runner for a checkpoint.")
    .description("Write the checkpoint message to the window of an agent that a runner started in tmux.")
    .argument("<agent>", "the agent")
    .action(action(ask));
  withExamples(command, (fleet) => ({ "Before a handoff": `${fleet} agents ask qa-0f3a2b` }));
}

async function restart(session: Session, agent: string): Promise<void> {
  session.progress(`Restarting ${agent}…\n`);
  await (await session.client()).admin.restartAgent(agent, session.deadline);
  await session.show(
    { agent_id: agent, restarted: true },
    () => `${agent} was restarted, and is asked for a checkpoint in five seconds.`,
  );
}

async function ask(session: Session, agent: string): Promise<void> {
  await (await session.client()).admin.askForCheckpoint(agent, session.deadline);
  await session.show({ agent_id: agent, asked: true }, () => `${agent} was asked for a checkpoint.`);
}

async function list(session: Session, { limit, cursor }: Flags): Promise<void> {
  const client = await session.client();
  const page = await client.admin.agents({ limit, cursor, ...session.deadline });
  const { renderAgents } = await import("../../rendering/operations/agents.ts");
  const next = nextPage(session, page.cursor);
  await session.show(page, () => renderAgents(page, next, session.view));
}
