// `fleet version`: the versions of this program. It needs no fleet, so it works even if nothing else does.

import type { Command } from "commander";
import { packageVersion } from "../../../../shared/runtime/process/installation.ts";
import type { ActionFactory } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

export function addVersion(program: Command, action: ActionFactory): void {
  program.command("version").description("Print the versions of Fleet and Node.").action(action(version));
}

async function version(session: Session): Promise<void> {
  const found = { version: packageVersion(), node: process.versions.node };
  await session.show(found, () => `fleet ${found.version}, node ${found.node}`);
}
