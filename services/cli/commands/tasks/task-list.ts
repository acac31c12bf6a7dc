// `fleet task list`, which is also `fleet tasks`: the tasks with their state, owner, phase, progress and age.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { TaskPage } from "../../../../shared/protocol/queries.ts";
import type { TasksOptions } from "../../../../shared/sdk/client/admin.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { untilInterrupted } from "../../runtime/sigint.ts";

/** The protocol's own lists come with its schemas, which would make the help slow. */
const STATES = ["active", "handing_off", "blocked", "completed", "failed", "cancelled"] as const;
const PHASE_NAMES = ["planning", "implementing", "testing", "reviewing", "complete", "handoff"] as const;

interface Flags {
  readonly state?: (typeof STATES)[number];
  readonly phase?: (typeof PHASE_NAMES)[number];
  readonly agent?: string;
  readonly type?: string;
  readonly follow?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addTaskList(group: Command, action: ActionFactory): void {
  const command = group
    .command("list")
    .summary("List tasks with their state, owner, phase, progress and age.")
    .description(
      "List tasks with their state, owner, phase, progress and age, ordered by their names. A task must match all filters.",
    )
    .addOption(new Option("-s, --state <state>", "only those in this state").choices(STATES))
    .addOption(
      new Option("--phase <phase>", "only those whose newest checkpoint has this phase").choices(PHASE_NAMES),
    )
    .option("--agent <id>", "only those that this agent owns or wrote last; a person is human=<name>")
    .option("--type <type>", "only those that an agent of this type wrote last")
    .addOption(limitOption(LIMITS.tasks_limit_default, LIMITS.tasks_limit_max))
    .addOption(new Option("--cursor <cursor>", CURSOR).conflicts("follow"))
    .addOption(
      new Option("-f, --follow", "print each task again when it changes, until Ctrl-C").conflicts("limit"),
    )
    .action(action(list));
  withExamples(command, (fleet) => ({
    "All tasks": `${fleet} tasks`,
    "The tasks of one agent": `${fleet} task list --agent coder-7`,
    "Blocked tasks, in a script": `${fleet} task list --state blocked --json | jq -r '.tasks[].task_id'`,
    "Changes as they happen": `${fleet} tasks --follow`,
  }));
}

async function list(session: Session, flags: Flags): Promise<void> {
  const client = await session.client();
  const { state, phase, agent: agentId, type: agentType, limit, cursor } = flags;
  const filter: TasksOptions = { state, phase, agentId, agentType };
  const { renderTasks } = await import("../../rendering/operations/task-table.ts");
  if (flags.follow) return follow(session, filter);
  const page = await client.admin.tasks({ ...session.deadline, ...filter, limit, cursor });
  warnOfCorrupt(session, page);
  const next = nextPage(session, page.cursor);
  await session.show(page, () => renderTasks({ tasks: page.tasks, next }, session.view));
}

function warnOfCorrupt(session: Session, { corrupt }: TaskPage): void {
  for (const task_id of corrupt) {
    const text = "the record of a task is corrupt and was left out";
    session.warn({ code: "CORRUPT", text, details: { task_id } });
  }
}

/** Prints a line for each task that an event names. Several events of one task that wait are one line. */
async function follow(session: Session, filter: TasksOptions): Promise<void> {
  const client = await session.client();
  const { renderTaskLine } = await import("../../rendering/operations/task-table.ts");
  const changed = new Set<string>();
  let lines = Promise.resolve();
  const print = async (): Promise<void> => {
    const [id] = changed;
    if (id === undefined) return;
    changed.delete(id);
    const page = await client.admin.tasks({ ...session.deadline, ...filter, taskId: id });
    warnOfCorrupt(session, page);
    for (const task of page.tasks) session.line(task, () => renderTaskLine(task, session.view));
  };
  const interrupted = untilInterrupted();
  let failed: (error: unknown) => void = () => {};
  const failure = new Promise<never>((_, reject) => {
    failed = reject;
  });
  const stop = await client.onEvent(({ subject }) => {
    changed.add(subject);
    lines = lines.then(print).catch(failed);
  });
  // Printed for programs as well: they receive every change from here on.
  session.notice("Following tasks; Ctrl-C ends.");
  try {
    await Promise.race([interrupted, failure]);
  } finally {
    await stop();
    await lines;
  }
}
