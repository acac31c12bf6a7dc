// `fleet status`: whether the fleet works. The exit code says it too, for scripts and probes.

import type { Command } from "commander";
import { ERROR_TABLE } from "../../../shared/protocol/errors.ts";
import { type Acting, withExamples } from "../acting.ts";
import type { Session } from "../session.ts";

export function addStatus(program: Command, acting: Acting): void {
  const command = program
    .command("status")
    .summary("Show whether the fleet works.")
    .description("Show whether store, bus, index and outbox work, and how much there is (exit 69 when not).")
    .action(acting(status));
  withExamples(command, (fleet) => ({
    "The fleet that FLEET_URL names, or the one of this folder": `${fleet} status`,
    "For a script": `${fleet} status --json --timeout 1s`,
  }));
}

async function status(session: Session): Promise<void> {
  const client = await session.client();
  const found = await client.status(session.ask);
  const { renderStatus } = await import("../rendering/status.ts");
  await session.show(found, () => renderStatus(found, session.url ?? "", session.view));
  if (!found.store.ok || !found.bus.ok) session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
}
