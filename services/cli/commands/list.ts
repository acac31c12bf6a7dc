// `fleet checkpoints list`: the newest checkpoints, of one task or of all.

import { type Command, Option } from "commander";
import { type Acting, withExamples } from "../acting.ts";
import { wholeNumber } from "../input/number.ts";
import type { Session } from "../session.ts";
import { nextPage, showFound } from "./found.ts";

interface Flags {
  readonly task?: string;
  readonly agent?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addList(group: Command, acting: Acting): void {
  const command = group
    .command("list")
    .description("List checkpoints, newest first: of one task, of one agent, or of all.")
    .option("-t, --task <id>", "of this task")
    .option("--agent <id>", "of this agent")
    .addOption(new Option("-n, --limit <n>", "at most so many (20)").argParser(wholeNumber(1)))
    .option("--cursor <cursor>", "go on after an earlier page")
    .action(acting(list));
  withExamples(command, {
    "The newest of all tasks": "fleet checkpoints list",
    "Of one task": "fleet checkpoints list --task auth --limit 50",
  });
}

async function list(session: Session, { task, agent, limit, cursor }: Flags): Promise<void> {
  const client = await session.client();
  const options = { limit, cursor, ...session.ask };
  // A task's own order is exact at once; the index that answers everything else follows a moment later.
  const page =
    task !== undefined && agent === undefined
      ? await client.getCheckpointHistory(task, { ...options, order: "newest" })
      : await client.searchCheckpoints({ ...options, taskId: task, agentId: agent });
  const { plain } = await import("../rendering/text.ts");
  const of = [
    ...(task === undefined ? [] : [`task: ${plain(task)}`]),
    ...(agent === undefined ? [] : [`agent: ${plain(agent)}`]),
  ];
  await showFound(session, page, {
    title: of.length === 0 ? "Checkpoints of all tasks" : `Checkpoints for ${of.join(", ")}`,
    withTask: task === undefined,
    next: nextPage(session, page.cursor),
  });
}
