// `fleet cost`: the tokens and the money of a task, for each segment of its work or summed.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { warnAbout } from "../checkpoints/print-page.ts";

const KEYS = { agent: "agent_id", phase: "phase", model: "model" } as const;

export function addCost(program: Command, action: ActionFactory): void {
  const command = program
    .command("cost")
    .summary("Sum the tokens and the money of a task.")
    .description(
      "Sum the tokens and the money of a task, as its agents reported them in their checkpoints. A segment is a run of checkpoints by one agent, in one phase, with one model.",
    )
    .argument("<task>", "the task")
    .addOption(
      new Option("--by <part>", "one row for each of these, not for each segment").choices(Object.keys(KEYS)),
    )
    .action(action(cost));
  withExamples(command, (fleet) => ({
    "Where the tokens went": `${fleet} cost auth`,
    "The cost of each model": `${fleet} cost auth --by model`,
    "All tokens, in a script": `${fleet} cost auth --json | jq .total.tokens`,
  }));
}

async function cost(session: Session, task: string, { by }: { by?: keyof typeof KEYS }): Promise<void> {
  const { requireTask } = await import("../../runtime/existing-task.ts");
  await requireTask(session, task);
  const { spendingBy, taskSegments, total } = await import("../../../../shared/sdk/task-cost.ts");
  const segments = taskSegments(await wholeHistory(session, task));
  const { renderSegments, renderSpending } = await import("../../rendering/operations/cost.ts");
  if (by === undefined) {
    const found = { task_id: task, segments, total: total(segments) };
    return session.show(found, () => renderSegments(found, session.view));
  }
  const found = { task_id: task, by, rows: spendingBy(segments, KEYS[by]), total: total(segments) };
  await session.show(found, () => renderSpending(found, session.view));
}

async function wholeHistory(session: Session, task: string): Promise<Checkpoint[]> {
  const client = await session.client();
  const all: Checkpoint[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.getCheckpointHistory(task, {
      order: "oldest",
      limit: LIMITS.history_limit_max,
      cursor,
      ...session.deadline,
    });
    warnAbout(session, page);
    all.push(...page.checkpoints);
    cursor = page.cursor;
  } while (cursor !== undefined);
  return all;
}
