// `fleet index`: the search index, which can be rebuilt from the store at any time.

import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { IndexStatus } from "../../../../shared/protocol/queries.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

const POLL_MS = 200;

export function addSearchIndex(program: Command, action: ActionFactory): void {
  const group = program.command("index").description("Show or rebuild the search index.");
  group
    .command("status")
    .description("Show whether the index is complete, and the progress of a rebuild.")
    .action(action(status));
  const rebuildCommand = group
    .command("rebuild")
    .description("Rebuild the index from the store, and wait for the end. Searches work in the meantime.")
    .option("--no-wait", "only start it")
    .action(action(rebuild));
  withExamples(rebuildCommand, (fleet) => ({
    "Rebuild it and wait": `${fleet} index rebuild`,
    "Only start it": `${fleet} index rebuild --no-wait && ${fleet} index status`,
  }));
}

async function status(session: Session): Promise<void> {
  const client = await session.client();
  await showIndex(session, await client.admin.indexStatus(session.deadline));
}

async function rebuild(session: Session, { wait }: { readonly wait: boolean }): Promise<void> {
  const { PROGRESS_END, progressLine } = await import("../../rendering/terminal/progress.ts");
  const client = await session.client();
  let found = await client.admin.rebuildIndex(session.deadline);
  try {
    while (wait && found.state === "rebuilding") {
      const { indexed: done, total } = found;
      session.progress(progressLine({ what: "Rebuilding", done, total }, session.view));
      await sleep(POLL_MS);
      found = await client.admin.indexStatus(session.deadline);
    }
  } finally {
    session.progress(PROGRESS_END);
  }
  await showIndex(session, found);
}

async function showIndex(session: Session, found: IndexStatus): Promise<void> {
  const { renderIndex } = await import("../../rendering/operations/status.ts");
  await session.show(found, () => renderIndex(found, session.view));
}
