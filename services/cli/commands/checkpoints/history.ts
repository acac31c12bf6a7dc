// `fleet checkpoint history`: the chain of a task's checkpoints.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { warnAbout } from "./print-page.ts";

interface Flags {
  readonly order: "newest" | "oldest";
  readonly limit?: number;
  readonly cursor?: string;
}

export function addHistory(group: Command, action: ActionFactory): void {
  const command = group
    .command("history")
    .description("Show a task's checkpoints as a chain, each with its parents.")
    .argument("<task>", "the task")
    .addOption(
      new Option("--order <order>", "the end to start from").choices(["newest", "oldest"]).default("newest"),
    )
    .addOption(limitOption(LIMITS.history_limit_default, LIMITS.history_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(history));
  withExamples(command, (fleet) => ({
    "From the beginning": `${fleet} checkpoint history auth --order oldest`,
  }));
}

async function history(session: Session, task: string, { order, limit, cursor }: Flags): Promise<void> {
  const client = await session.client();
  const page = await client.getCheckpointHistory(task, { order, limit, cursor, ...session.deadline });
  const { renderHistory } = await import("../../rendering/checkpoints/history.ts");
  const next = nextPage(session, page.cursor);
  const { shownBlocks } = await import("../../../../shared/sdk/esign/display.ts");
  const { signaturesOf } = await import("../esign/shown-signatures.ts");
  const signatures = await signaturesOf(session, page.checkpoints);
  const electronic_signatures = shownBlocks(signatures);
  await session.show(signatures.length === 0 ? page : { ...page, electronic_signatures }, () =>
    renderHistory(
      { task, order, checkpoints: page.checkpoints, removed: page.removed ?? [], signatures, next },
      session.view,
    ),
  );
  warnAbout(session, page);
}
