// `fleet spool`: commands that wait on this machine because no bus took them. They are sent by themselves when an agent of theirs
// meets a bus; this shows them, and sends them now.

import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import type { ListedSpool } from "../../../../shared/sdk/spool/spool-list.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { Session } from "../../runtime/session.ts";

export function addSpool(program: Command, action: ActionFactory): void {
  const group = program
    .command("spool")
    .description("Look at commands that wait on this machine for a bus, and send them.");
  const showing = group
    .command("status")
    .description("Show what waits, for each agent: how many commands, since when, and what was set aside.")
    .action(action(status));
  withExamples(showing, (fleet) => ({
    "Is anything waiting": `${fleet} spool status`,
    "Of one agent": `${fleet} spool status --agent coder-7 --json`,
  }));
  const flushing = group
    .command("flush")
    .description("Send what waits now, of all agents or of --agent (exit 69 when something is left).")
    .action(action(flush));
  withExamples(flushing, (fleet) => ({
    "Before this machine goes": `${fleet} spool flush --timeout 1m`,
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
      : `${session.view.colors.yellow("Not done:")} ${counted(sent, "command")} sent, ${counted(remaining, "command")} left; does a fleet answer?`,
  );
  if (remaining > 0) session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
}

/** Each command goes out in its agent's name, because that is who may send it. */
async function sendAs(session: Session, tenant: string, agent: string): Promise<void> {
  const own = new Session(session.context, { ...session.settings, tenant, agent });
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
  return all.filter(
    ({ tenant, agentId }) =>
      (settings.tenant ?? tenant) === tenant && (settings.agent ?? agentId) === agentId,
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
