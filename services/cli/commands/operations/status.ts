// `fleet status`: the state of the fleet. The exit code reports it as well, for scripts and probes.

import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { findRecord, trustedHome } from "../../../../shared/sdk/fleet-home.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import type { OpenAlerts, RunningWatchdog } from "../../rendering/operations/status.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

export function addStatus(program: Command, action: ActionFactory): void {
  const command = program
    .command("status")
    .summary("Show whether the fleet works.")
    .description(
      "Show whether store, bus, its streams and consumers, index and outbox work, whether alerts are open, whether a watchdog runs, the free disk space, and the number of tasks " +
        "(exit 69: store or bus is unavailable, a stream keeps services from their work, or a disk is full).",
    )
    .action(action(status));
  withExamples(command, (fleet) => ({
    "The fleet of FLEET_URL, or that of this folder": `${fleet} status`,
    "For a script": `${fleet} status --json --timeout 1s`,
  }));
}

async function status(session: Session): Promise<void> {
  const client = await session.client();
  const found = await client.admin.status(session.deadline);
  const works = found.store.ok && found.bus.ok;
  const isBlocked = (found.findings ?? []).some(({ blocks }) => blocks);
  const [alerts, watchdog] = works
    ? await Promise.all([openAlerts(client, session), runningWatchdog(client, session)])
    : [null, null];
  const { renderStatus } = await import("../../rendering/operations/status.ts");
  const identity = client.fleetId;
  const api = apiOf(session, identity);
  const whole = {
    ...(identity !== undefined && { fleet: identity }),
    ...found,
    ...(alerts !== null && { alerts }),
    ...(watchdog !== null && { watchdog }),
    ...(api !== undefined && { http_api: api }),
  };
  await session.show(whole, () =>
    renderStatus(whole, { url: session.url ?? "", fleet: session.programName }, session.view),
  );
  const isFull = (found.disks ?? []).some(({ state }) => state === "full");
  if (!works || isBlocked || isFull) session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
}

/** The HTTP API of this fleet, if it is the one that is recorded here. */
function apiOf({ context }: Session, fleet: string | undefined): string | undefined {
  const record = findRecord(trustedHome(context.env));
  return fleet !== undefined && record?.fleet === fleet ? record.gatewayUrl : undefined;
}

/** The open alerts of this tenant; null if they cannot be read, because the rest of the status is still useful. */
async function openAlerts(client: FleetClient, session: Session): Promise<OpenAlerts | null> {
  const query = { ...session.deadline, acknowledged: false, resolved: false, limit: LIMITS.alerts_limit_max };
  try {
    const { alerts, cursor } = await client.admin.listAlerts(query);
    return { open: alerts.length, more: cursor !== undefined };
  } catch {
    return null;
  }
}

/** The watchdog with the lease of the scrubber: if any watchdog runs, one holds it. null if it cannot be read. */
async function runningWatchdog(client: FleetClient, session: Session): Promise<RunningWatchdog | null> {
  try {
    return { by: (await client.admin.scrubStatus(session.deadline)).by };
  } catch {
    return null;
  }
}
