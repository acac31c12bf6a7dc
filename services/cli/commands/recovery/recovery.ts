// `fleet recovery`: lists, shows, starts and retries recoveries.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { RECOVERING_STATES, type RecoveringState } from "../../../../shared/protocol/recovery-states.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { addRetries } from "./retry.ts";
import { addRecoveryStart } from "./start.ts";

interface ListFlags {
  readonly state?: RecoveringState;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addRecovery(program: Command, action: ActionFactory): void {
  const group = program
    .command("recovery")
    .description("Show the recoveries of tasks whose agents failed, start and retry them.");
  const listCommand = group
    .command("list")
    .summary("List open recoveries and blocked tasks.")
    .description("List the tasks that are being recovered or are blocked.")
    .addOption(new Option("-s, --state <state>", "only those in this state").choices(RECOVERING_STATES))
    .addOption(limitOption(LIMITS.recoveries_limit_default, LIMITS.recoveries_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(listCommand, (fleet) => ({ "Blocked tasks": `${fleet} recovery list --state blocked` }));
  const showCommand = group
    .command("show")
    .summary("Show the recovery of one task.")
    .description(
      "Show the whole recovery of a task: its attempts, the last failure, the time of the next attempt, or the reason for the block and the next step.",
    )
    .argument("<task>", "the task")
    .action(action(show));
  withExamples(showCommand, (fleet) => ({
    "The cause and the next step": `${fleet} recovery show auth`,
    "The state, in a script": `${fleet} recovery show auth --json | jq -r .recovery.state`,
  }));
  addRecoveryStart(group, action);
  addRetries(group, action);
}

async function list(session: Session, { state, limit, cursor }: ListFlags): Promise<void> {
  const client = await session.client();
  const page = await client.admin.recoveries({
    ...session.deadline,
    ...(state !== undefined && { state }),
    ...(limit !== undefined && { limit }),
    ...(cursor !== undefined && { cursor }),
  });
  const { renderRecoveries } = await import("../../rendering/recovery/recovery-table.ts");
  const { attemptsOf } = await import("./recovery-attempts.ts");
  await session.show(page, async () => {
    const offeredTo = new Map(
      (await attemptsOf(session, client, page.tasks)).flatMap(({ task_id, to_agent_type: type }) =>
        type === null ? [] : [[task_id, type]],
      ),
    );
    const next = nextPage(session, page.cursor);
    const text = { tasks: page.tasks, offeredTo, next, fleet: session.programName };
    return renderRecoveries(text, session.view);
  });
}

async function show(session: Session, id: string): Promise<void> {
  const { requireTask } = await import("../../runtime/existing-task.ts");
  const task = await requireTask(session, id);
  const { awaitedAgentType, renderRecovery } = await import("../../rendering/recovery/recovery-details.ts");
  const { attemptsOf } = await import("./recovery-attempts.ts");
  const { presenceOf } = await import("./agent-presence.ts");
  const client = await session.client();
  const [handoff = null] = await attemptsOf(session, client, [task]);
  const type = awaitedAgentType({ task, handoff });
  const presence = task.owner === null && type !== null ? await presenceOf(session, client, type) : null;
  const { task_id, state, owner, fence, blocked, recovery } = task;
  const { besideMember, signaturesOfNamed } = await import("../esign/shown-signatures.ts");
  const signatures = await signaturesOfNamed(session, id, [recovery?.checkpoint_id ?? null]);
  const shown = { task_id, state, owner, fence, blocked, recovery, available_agents: presence };
  await session.show({ ...shown, ...besideMember(signatures) }, () =>
    renderRecovery({ task, handoff, presence, signatures }, session.programName, session.view),
  );
}
