// `fleet version`: what runs here. It asks nobody, so it works when nothing else does.

import type { Command } from "commander";
import type { ActionFactory } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { ownVersion } from "../../runtime/version.ts";

export function addVersion(program: Command, action: ActionFactory): void {
  program.command("version").description("Print the versions of Fleet and Node.").action(action(version));
}

async function version(session: Session): Promise<void> {
  const found = { version: ownVersion(), node: process.versions.node };
  await session.show(found, () => `fleet ${found.version}, node ${found.node}`);
}
