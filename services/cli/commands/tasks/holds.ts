// `fleet task holds`: lists the holds of all tasks.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly limit?: number;
  readonly cursor?: string;
}

export function addTaskHolds(group: Command, action: ActionFactory): void {
  const command = group
    .command("holds")
    .summary("List the holds of all tasks.")
    .description("List the holds of all tasks, with the person that placed each, its reason and its case.")
    .addOption(limitOption(LIMITS.holds_limit_default, LIMITS.holds_limit_max))
    .addOption(new Option("--cursor <cursor>", CURSOR))
    .action(action(holds));
  withExamples(command, (fleet) => ({
    "All holds": `${fleet} task holds`,
    "The tasks of one case": `${fleet} task holds --json | jq -r '.holds[] | select(.name == "case-17") | .task_id'`,
  }));
}

async function holds(session: Session, { limit, cursor }: Flags): Promise<void> {
  const client = await session.client();
  const page = await client.admin.retention.holds({ ...session.deadline, limit, cursor });
  for (const task_id of page.corrupt) {
    const text = "the record of a task is corrupt, and its holds are not known";
    session.warn({ code: "CORRUPT", text, details: { task_id } });
  }
  const next = nextPage(session, page.cursor);
  const { renderHolds } = await import("../../rendering/operations/holds.ts");
  await session.show(page, () => renderHolds({ holds: page.holds, next }, session.view));
}
