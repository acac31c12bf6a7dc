// `fleet checkpoint history`: the chain of a task's checkpoints.

import { type Command, Option } from "commander";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { TaskShred } from "../../../../shared/protocol/shred.ts";
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
    .description(
      "Show a task's checkpoints as a chain, each with its parents and the electronic signatures of its versions; and what was removed, by retention or because two persons had the task shredded.",
    )
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
  const { pageWithBlocks, signaturesOf } = await import("../esign/shown-signatures.ts");
  const signatures = await signaturesOf(session, page.checkpoints);
  const { checkpoints, removed = [] } = page;
  const shred = await shredOf(session, task);
  const data = {
    ...pageWithBlocks(page, signatures),
    ...(shred !== undefined && { shred }),
  };
  await session.show(data, () =>
    renderHistory({ task, order, checkpoints, removed, shred: shred?.state, signatures, next }, session.view),
  );
  warnAbout(session, page);
}

/** Only the head of the task says that its content is removed on purpose. The history is shown without it too. */
async function shredOf(session: Session, task: string): Promise<TaskShred | undefined> {
  const client = await session.client();
  try {
    return (await client.getTask(task, session.deadline))?.shred;
  } catch (error) {
    if (!(error instanceof FleetError)) throw error;
    session.warn({
      code: "TASK_UNREAD",
      text: "the head of the task could not be read, so a shredding of it is not shown",
      details: { task_id: task, problem: error.code },
    });
    return undefined;
  }
}
