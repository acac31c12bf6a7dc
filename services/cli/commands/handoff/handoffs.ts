// `fleet handoff`: requests, takes, cancels, lists and shows handoffs.

import { type Command, Option } from "commander";
import { HANDOFF_STATES, type HandoffState } from "../../../../shared/protocol/handoff-states.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { addHandoffCancel } from "./cancel.ts";
import { addHandoffCreate } from "./create.ts";
import { namedHandoff } from "./named-handoff.ts";
import { addHandoffTake } from "./take.ts";

interface Flags {
  readonly task?: string;
  readonly state?: HandoffState;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addHandoffs(program: Command, action: ActionFactory): void {
  const group = program
    .command("handoff")
    .description("Hand tasks over, accept and cancel offers, list and show handoffs.");
  for (const addVerb of [addHandoffCreate, addHandoffTake, addHandoffCancel]) addVerb(group, action);
  const listCommand = group
    .command("list")
    .description("List handoffs, newest first.")
    .option("-t, --task <id>", "only those of this task")
    .addOption(new Option("-s, --state <state>", "only those in this state").choices(HANDOFF_STATES))
    .addOption(limitOption(LIMITS.handoffs_limit_default, LIMITS.handoffs_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(listCommand, (fleet) => ({
    "Tasks that wait for an agent": `${fleet} handoff list --state offered`,
    "Tasks that no agent accepted": `${fleet} handoff list --state escalated --json | jq -r '.handoffs[].task_id'`,
  }));
  const showCommand = group
    .command("show")
    .description(
      "Show one handoff: by its id, or by its task, which means the open handoff, else the latest.",
    )
    .argument("<handoff>", "the handoff, or its task")
    .action(action(show));
  withExamples(showCommand, (fleet) => ({
    "The progress of a handoff": `${fleet} handoff show auth`,
    "The agent that accepted it, in a script": `${fleet} handoff show auth --json | jq -r .accepted_by`,
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

async function show(session: Session, name: string): Promise<void> {
  const found = await namedHandoff(session, name);
  const { renderHandoff } = await import("../../rendering/handoff/handoff.ts");
  const { besideMember, signaturesOfNamed } = await import("../esign/shown-signatures.ts");
  const { task_id, checkpoint_id, first_checkpoint_id } = found;
  const signatures = await signaturesOfNamed(session, task_id, [checkpoint_id, first_checkpoint_id]);
  await session.show({ ...found, ...besideMember(signatures) }, () =>
    renderHandoff(found, session.view, signatures),
  );
}
