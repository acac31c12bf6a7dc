// `fleet checkpoint prune`: states that nothing is removed yet. A cleanup script must not take silence for success.

import type { Command } from "commander";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { UsageError } from "../../runtime/usage.ts";

export function addPrune(group: Command, action: ActionFactory): void {
  const command = group
    .command("prune")
    .summary("Not available yet: checkpoints are not removed.")
    .description(
      "Fleet does not remove checkpoints yet: each one is kept for longer than its retention policy demands. The command changes nothing and ends with 64.",
    )
    .option("-t, --task <id>", "the checkpoints of this task")
    .action(action(prune));
  withExamples(command, (fleet) => ({ "What it states": `${fleet} checkpoint prune` }));
}

async function prune(): Promise<void> {
  throw new UsageError(
    "this version of Fleet does not remove checkpoints",
    "Nothing was changed. Checkpoints are kept for longer than their retention policies demand.",
  );
}
