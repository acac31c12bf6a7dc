// `fleet checkpoints list`: the newest checkpoints, of one task or of all.

import type { Command } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { limitOption, limitRange, requireLimit } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { showCheckpoints } from "./print-page.ts";

interface Flags {
  readonly task?: string;
  readonly agent?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

/** A task's own order and the index answer in pages of different size. */
const RANGE = `${limitRange(LIMITS.search_limit_default, LIMITS.search_limit_max)}, or ${LIMITS.history_limit_max} with --task alone`;

export function addList(group: Command, action: ActionFactory): void {
  const command = group
    .command("list")
    .description("List checkpoints, newest first: of one task, of one agent, or of all.")
    .option("-t, --task <id>", "of this task")
    .option("--agent <id>", "of this agent")
    .addOption(limitOption(LIMITS.history_limit_default, LIMITS.history_limit_max, RANGE))
    .option("--cursor <cursor>", "go on after an earlier page")
    .action(action(list));
  withExamples(command, (fleet) => ({
    "The newest of all tasks": `${fleet} checkpoints list`,
    "Of one task": `${fleet} checkpoints list --task auth --limit 50`,
  }));
}

async function list(session: Session, { task, agent, limit, cursor }: Flags): Promise<void> {
  const ofOneTask = task !== undefined && agent === undefined;
  if (!ofOneTask) requireLimit(limit, LIMITS.search_limit_max, RANGE);
  const client = await session.client();
  const options = { limit, cursor, ...session.deadline };
  // A task's own order is exact at once; the index that answers everything else follows a moment later.
  const page = ofOneTask
    ? await client.getCheckpointHistory(task, { ...options, order: "newest" })
    : await client.searchCheckpoints({ ...options, taskId: task, agentId: agent });
  const { plain } = await import("../../rendering/terminal/text.ts");
  const of = [
    ...(task === undefined ? [] : [`task: ${plain(task)}`]),
    ...(agent === undefined ? [] : [`agent: ${plain(agent)}`]),
  ];
  await showCheckpoints(session, page, {
    title: of.length === 0 ? "Checkpoints of all tasks" : `Checkpoints for ${of.join(", ")}`,
    withTask: task === undefined,
    next: nextPage(session, page.cursor),
  });
}
