// `fleet spool`: the commands that wait on this machine because the bus was unavailable. An agent sends its own as soon
// as it connects to a bus. This command shows them, and sends them now.

import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { parsePrincipal, principalToken } from "../../../../shared/protocol/principal.ts";
import type { ListedSpool } from "../../../../shared/sdk/spool/spool-list.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { Session } from "../../runtime/session.ts";

export function addSpool(program: Command, action: ActionFactory): void {
  const group = program
    .command("spool")
    .description("Show or send the commands that wait on this machine for a bus.");
  const statusCommand = group
    .command("status")
    .description(
      "Show the waiting commands of each agent: their number, the oldest, and those that were set aside.",
    )
    .action(action(status));
  withExamples(statusCommand, (fleet) => ({
    "All waiting commands": `${fleet} spool status`,
    "Those of one agent": `${fleet} spool status --agent coder-7 --json`,
  }));
  const flushCommand = group
    .command("flush")
    .description("Send the waiting commands of all agents, or of --agent, now (exit 69: some are left).")
    .action(action(flush));
  withExamples(flushCommand, (fleet) => ({
    "Before this machine is switched off": `${fleet} spool flush --timeout 1m`,
  }));
}

async function status(session: Session): Promise<void> {
  const spools = await spoolsOf(session);
  const { renderSpools } = await import("../../rendering/operations/spool.ts");
  await session.show({ spools: spools.map(data) }, () => renderSpools(spools, session.view));
}

async function flush(session: Session): Promise<void> {
  const before = await spoolsOf(session);
  for (const { tenant, agentId, commands } of before) {
    if (commands > 0) await sendAs(session, tenant, agentId);
  }
  const left = await spoolsOf(session);
  const total = (spools: readonly ListedSpool[]) => spools.reduce((sum, { commands }) => sum + commands, 0);
  const [sent, remaining] = [total(before) - total(left), total(left)];
  const { counted } = await import("../../rendering/terminal/text.ts");
  await session.show({ sent, remaining, spools: left.map(data) }, () =>
    remaining === 0
      ? `${session.view.colors.green("Sent:")} ${counted(sent, "command")}`
      : `${session.view.colors.yellow("Incomplete:")} ${counted(sent, "command")} sent, ${counted(remaining, "command")} left; check the fleet with \`${session.programName} status\``,
  );
  if (remaining > 0) session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
}

/** Each command is sent in its caller's name, because only that caller may send it. */
async function sendAs(session: Session, tenant: string, caller: string): Promise<void> {
  const { agent: _agent, person: _person, ...settings } = session.settings;
  const principal = parsePrincipal(caller);
  const named = principal?.kind === "human" ? { person: principal.name } : { agent: caller };
  const own = new Session(session.context, { ...settings, tenant, ...named });
  try {
    const client = await own.client();
    await client.flush(own.deadline);
  } finally {
    await own.close();
  }
}

async function spoolsOf({ settings, context }: Session): Promise<ListedSpool[]> {
  const [{ listSpools }, { spoolFolder }] = await Promise.all([
    import("../../../../shared/sdk/spool/spool-list.ts"),
    import("../../../../shared/sdk/client/connect.ts"),
  ]);
  const all = await listSpools(spoolFolder({}, context.env));
  const { tenant: wantedTenant, agent, person } = settings;
  const wanted = person === undefined ? agent : principalToken({ kind: "human", name: person });
  return all.filter(
    ({ tenant, agentId }) => (wantedTenant ?? tenant) === tenant && (wanted ?? agentId) === agentId,
  );
}

function data({
  tenant,
  agentId,
  path,
  commands,
  bytes,
  oldestAt,
  tasks,
  aside,
  reasons,
}: ListedSpool): object {
  return { tenant, agent_id: agentId, path, commands, bytes, oldest_at: oldestAt, tasks, aside, reasons };
}
