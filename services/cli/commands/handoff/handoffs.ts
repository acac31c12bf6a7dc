// `fleet handoffs`: open and ended handoffs.

import { type Command, Option } from "commander";
import { HANDOFF_STATES, type HandoffState } from "../../../../shared/protocol/handoff-states.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { bareId } from "../../input/id.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly task?: string;
  readonly state?: HandoffState;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addHandoffs(program: Command, action: ActionFactory): void {
  const group = program.command("handoffs").description("List and show handoffs.");
  const listCommand = group
    .command("list")
    .description("List handoffs, newest first.")
    .option("-t, --task <id>", "only those of this task")
    .addOption(new Option("-s, --state <state>", "only those in this state").choices(HANDOFF_STATES))
    .addOption(limitOption(LIMITS.handoffs_limit_default, LIMITS.handoffs_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(listCommand, (fleet) => ({
    "Tasks that wait for an agent": `${fleet} handoffs list --state offered`,
    "Tasks that no agent accepted": `${fleet} handoffs list --state escalated --json | jq -r '.handoffs[].task_id'`,
  }));
  const showCommand = group
    .command("show")
    .description(
      "Show one handoff: by its id, or by its task, which means the open handoff, else the latest.",
    )
    .argument("<handoff>", "the handoff, or its task")
    .action(action(show));
  withExamples(showCommand, (fleet) => ({
    "The progress of a handoff": `${fleet} handoffs show auth`,
    "The agent that accepted it, in a script": `${fleet} handoffs show auth --json | jq -r .accepted_by`,
  }));
}

async function list(session: Session, { task, state, limit, cursor }: Flags): Promise<void> {
  const client = await session.client();
  const page = await client.handoffs({
    ...session.deadline,
    ...(task !== undefined && { taskId: task }),
    ...(state !== undefined && { state }),
    ...(limit !== undefined && { limit }),
    ...(cursor !== undefined && { cursor }),
  });
  for (const id of page.corrupt) {
    session.warn({
      code: "CORRUPT",
      text: "the record of a handoff is corrupt and was left out",
      details: { handoff_id: id },
    });
  }
  const { renderHandoffs } = await import("../../rendering/handoff/handoff.ts");
  const next = nextPage(session, page.cursor);
  await session.show(page, () => renderHandoffs({ handoffs: page.handoffs, next }, session.view));
}

const ID = /^(chk-)?[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

async function show(session: Session, name: string): Promise<void> {
  const client = await session.client();
  const found = ID.test(name)
    ? await client.handoff(bareId(name), session.deadline)
    : await client.handoffOf(name, session.deadline);
  if (found === null) {
    const { FleetError } = await import("../../../../shared/protocol/errors.ts");
    throw new FleetError("NOT_FOUND", "there is no such handoff", { details: { handoff: name } });
  }
  const { renderHandoff } = await import("../../rendering/handoff/handoff.ts");
  await session.show(found, () => renderHandoff(found, session.view));
}
