// `fleet spool`: the commands that wait on this machine because the bus was unavailable. An agent sends its own as soon
// as it connects to a bus. This command shows them, and sends them now.

import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { parsePrincipal, principalToken } from "../../../../shared/protocol/principal.ts";
import { readConfig } from "../../../../shared/runtime/settings/config.ts";
import type { FleetClient, SpoolCounts } from "../../../../shared/sdk/sdk.ts";
import type { ListedSpool } from "../../../../shared/sdk/spool/spool-list.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { Session } from "../../runtime/session.ts";
import { addSpoolDecisions, addSpoolReopen } from "./spool-decisions.ts";

export function addSpool(program: Command, action: ActionFactory): void {
  const group = program
    .command("spool")
    .description("Show or send the commands that wait on this machine for a bus.");
  const statusCommand = group
    .command("status")
    .description(
      "Show the waiting commands of each agent of this user: their fleet, their number, the oldest, and those that were set aside.",
    )
    .action(action(status));
  withExamples(statusCommand, (fleet) => ({
    "All waiting commands": `${fleet} spool status`,
    "Those of one agent": `${fleet} spool status --agent coder-7 --json`,
  }));
  const flushCommand = group
    .command("flush")
    .description(
      "Send the waiting commands of all agents, or of --agent, now (exit 69: some are left, or were set aside).",
    )
    .action(action(flush));
  withExamples(flushCommand, (fleet) => ({
    "Before this machine is switched off": `${fleet} spool flush --timeout 1m`,
  }));
  addSpoolReopen(group, action, { spoolsOf, sendAll });
  addSpoolDecisions(group, action, { spoolsOf, sendAll });
}

async function status(session: Session): Promise<void> {
  const spools = await spoolsOf(session);
  const [{ renderSpools }, { fleetState }] = await Promise.all([
    import("../../rendering/operations/spool.ts"),
    import("../../runtime/spool-fleet.ts"),
  ]);
  const listed = spools.map((spool) => ({ ...spool, fleetState: fleetState(spool) }));
  await session.show({ spools: listed.map((one) => ({ ...data(one), fleet_state: one.fleetState })) }, () =>
    renderSpools(listed, session.programName, session.view),
  );
}

async function flush(session: Session): Promise<void> {
  const waiting = (await spoolsOf(session)).filter(({ commands }) => commands > 0);
  const { sent, aside, damaged } = await sendAll(session, waiting);
  const left = await spoolsOf(session);
  const remaining = left.reduce((sum, { commands }) => sum + commands, 0);
  if (remaining + aside + damaged > 0) session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
  const [{ counted }, { asideTexts }] = await Promise.all([
    import("../../rendering/terminal/text.ts"),
    import("../../rendering/operations/spool.ts"),
  ]);
  const { colors } = session.view;
  const fleet = session.programName;
  await session.show({ sent, remaining, aside, damaged, spools: left.map(data) }, () => {
    if (remaining + aside + damaged === 0) return `${colors.green("Sent:")} ${counted(sent, "command")}`;
    const parts = [
      `${counted(sent, "command")} sent`,
      ...(remaining > 0
        ? [`${counted(remaining, "command")} left; check the fleet with \`${fleet} status\``]
        : []),
      ...asideTexts({ aside, damaged }, fleet),
    ];
    return `${colors.yellow("Incomplete:")} ${parts.join(", ")}`;
  });
}

/** Resolves with what this call has sent and set aside of all of them. */
async function sendAll(session: Session, spools: Iterable<ListedSpool>): Promise<SpoolCounts> {
  let [sent, aside, damaged] = [0, 0, 0];
  for (const spool of spools) {
    const counts = await sendAs(session, spool);
    sent += counts.sent;
    aside += counts.aside;
    damaged += counts.damaged;
  }
  return { sent, aside, damaged };
}

/**
 * Each command is sent in its caller's name, because only that caller may send it, and to the fleet that it is for. Resolves with what this call has
 * sent and set aside; another process of the agent may have sent others meanwhile.
 */
async function sendAs(session: Session, spool: ListedSpool): Promise<SpoolCounts> {
  const { fleetEnvironment } = await import("../../runtime/spool-fleet.ts");
  const { agent: _agent, person: _person, ...settings } = session.settings;
  const principal = parsePrincipal(spool.agentId);
  const named = principal?.kind === "human" ? { person: principal.name } : { agent: spool.agentId };
  const env = { ...session.context.env, ...fleetEnvironment(session, spool) };
  const own = new Session({ ...session.context, env }, { ...settings, tenant: spool.tenant, ...named });
  let client: FleetClient | undefined;
  try {
    client = await own.client();
    await client.flush(own.deadline);
  } catch (error) {
    // The spools of other fleets are sent nevertheless.
    session.warn({ code: "SPOOL_NOT_SENT", text: messageOf(error), details: { spool: spool.path } });
  } finally {
    await own.close();
  }
  // After the end of the connection, which sends for a moment too.
  return client?.spoolCounts ?? { sent: 0, aside: 0, damaged: 0 };
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** The spools of this user, or of the folder that a variable names, filtered by tenant and caller. */
export async function spoolsOf({ settings, context }: Session): Promise<ListedSpool[]> {
  const [{ listSpools, spoolFolders }, { clientFields }] = await Promise.all([
    import("../../../../shared/sdk/spool/spool-list.ts"),
    import("../../../../shared/sdk/client/connect.ts"),
  ]);
  const { spoolDir } = readConfig({ spoolDir: clientFields.spoolDir }, context.env);
  const folders = spoolFolders(spoolDir, context.env);
  const all = (await Promise.all(folders.map((folder) => listSpools(folder)))).flat();
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
  note,
  commands,
  bytes,
  oldestAt,
  tasks,
  aside,
  reasons,
}: ListedSpool): object {
  const { fleet = null, url = null, home = null } = note ?? {};
  return {
    tenant,
    agent_id: agentId,
    path,
    fleet,
    url,
    home,
    commands,
    bytes,
    oldest_at: oldestAt,
    tasks,
    aside,
    reasons,
  };
}
