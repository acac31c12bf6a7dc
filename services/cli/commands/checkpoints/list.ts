// `fleet checkpoint list`: the newest checkpoints of one task, one agent or all tasks.

import type { Command } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { CURSOR, limitOption, limitRange, requireLimit } from "../../input/limit.ts";
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

/** The history of a task and the search index have pages of different sizes. */
const RANGE = `${limitRange(LIMITS.search_limit_default, LIMITS.search_limit_max)}, or ${LIMITS.history_limit_max} with --task alone`;

export function addList(group: Command, action: ActionFactory): void {
  const command = group
    .command("list")
    .description("List checkpoints of one task, one agent or all tasks, newest first.")
    .option("-t, --task <id>", "only those of this task")
    .option("--agent <id>", "only those of this agent")
    .addOption(limitOption(LIMITS.history_limit_default, LIMITS.history_limit_max, RANGE))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(command, (fleet) => ({
    "The newest checkpoints of all tasks": `${fleet} checkpoint list`,
    "The checkpoints of one task": `${fleet} checkpoint list --task auth --limit 50`,
  }));
}

async function list(session: Session, { task, agent, limit, cursor }: Flags): Promise<void> {
  const ofOneTask = task !== undefined && agent === undefined;
  if (!ofOneTask) requireLimit(limit, LIMITS.search_limit_max, RANGE);
  const client = await session.client();
  const options = { limit, cursor, ...session.deadline };
  // The history of a task is always current. The search index, which answers all other queries, follows a moment later.
  const page = ofOneTask
    ? await client.getCheckpointHistory(task, { ...options, order: "newest" })
    : await client.searchCheckpoints({ ...options, taskId: task, agentId: agent });
  const { plain } = await import("../../rendering/terminal/text.ts");
  const whose = task === undefined ? "all tasks" : `task ${plain(task)}`;
  await showCheckpoints(session, page, {
    title: `Checkpoints of ${whose}${agent === undefined ? "" : `, by agent ${plain(agent)}`}`,
    withTask: task === undefined,
    next: nextPage(session, page.cursor),
  });
}
