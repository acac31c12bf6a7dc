// `fleet fence`: who may write to a task. `check` is for tools and hooks, which ask before they act in an agent's name.

import { type Command, Option } from "commander";
import { ERROR_TABLE, FleetError, invalid } from "../../../../shared/protocol/errors.ts";
import { bareId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";

interface TakeFlags {
  readonly commandId?: string;
  readonly expectedFence?: number;
  readonly quiet?: boolean;
}

interface ReleaseFlags {
  readonly commandId?: string;
  readonly fence: number;
}

const { FENCED, INVALID, UNAVAILABLE, TIMEOUT } = ERROR_TABLE;

export function addFence(program: Command, action: ActionFactory): void {
  const group = program.command("fence").description("Own a task, and check who does.");
  const checking = group
    .command("check")
    .summary("Check whether a fence is the task's current one.")
    .description(
      "Check whether a fence is the task's current one, before action under it. The exit code is the answer:\n" +
        `0 current; ${FENCED.exit} another agent has taken the task over, stop; ${UNAVAILABLE.exit} or ${TIMEOUT.exit} the fleet could not be asked; ${INVALID.exit} the task never had such a fence.`,
    )
    .argument("<task>", "the task")
    .argument("<fence>", "the fence that you hold", wholeNumber(0))
    .action(action(check));
  withExamples(checking, (fleet) => ({
    "In a hook": `${fleet} fence check auth 3 --timeout 100ms || exit 2`,
  }));
  const taking = group
    .command("take")
    .description(
      "Become the owner of a task: its fence rises, and whoever owned it before cannot write to it any more.",
    )
    .argument("<task>", "the task")
    .addOption(
      new Option(
        "--expected-fence <n>",
        "only while the task has this fence; 0: nobody has ever taken it",
      ).argParser(wholeNumber(0)),
    )
    .option("--command-id <uuid>", "a UUIDv7 of yours; the same one again repeats nothing", bareId)
    .option("-q, --quiet", "print only the fence")
    .action(action(take));
  withExamples(taking, (fleet) => ({
    "In a script": `FENCE=$(${fleet} fence take auth -q) && ${fleet} checkpoint -t auth --fence $FENCE --type qa --phase testing`,
    "Only if nobody was faster": `${fleet} fence take auth --expected-fence 3`,
  }));
  const releasing = group
    .command("release")
    .description("Give a task back. Its fence stays as it is and never falls.")
    .argument("<task>", "the task")
    .addOption(
      new Option("--fence <n>", "the fence under which you own it")
        .argParser(wholeNumber(1))
        .makeOptionMandatory(),
    )
    .option("--command-id <uuid>", "a UUIDv7 of yours; the same one again repeats nothing", bareId)
    .action(action(release));
  withExamples(releasing, (fleet) => ({ "The work is done": `${fleet} fence release auth --fence 3` }));
}

async function check(session: Session, id: string, fence: number): Promise<void> {
  const client = await session.client();
  const task = await client.getTask(id, session.deadline);
  // A task that does not exist yet has never been taken.
  const { fence: current, owner } = task ?? { fence: 0, owner: null };
  if (fence > current) throw invalid("fence", `at most ${current}, the task's fence`, fence);
  if (fence < current) {
    throw new FleetError("FENCED", "the task has been taken over", {
      details: { task_id: id, fence, current_fence: current, owner },
    });
  }
  const { plain } = await import("../../rendering/terminal/text.ts");
  await session.show(
    { task_id: id, fence, current: true, owner },
    () =>
      `Current: task ${plain(id)} has fence ${fence}, owned by ${owner === null ? "nobody" : plain(owner)}`,
  );
}

async function take(session: Session, id: string, flags: TakeFlags): Promise<void> {
  const client = await session.client();
  const { commandId, expectedFence } = flags;
  const { fence } = await client.takeTask(id, { ...session.deadline, commandId, expectedFence });
  const owner = client.agentId;
  const { plain } = await import("../../rendering/terminal/text.ts");
  await session.show({ task_id: id, owner, fence }, () =>
    flags.quiet
      ? String(fence)
      : `${session.view.colors.green("Taken:")} task ${plain(id)}, by ${plain(owner)}\nFence: ${fence}; send it with every command on the task`,
  );
}

async function release(session: Session, id: string, { commandId, fence }: ReleaseFlags): Promise<void> {
  const client = await session.client();
  const outcome = await client.releaseTask(id, { ...session.deadline, commandId, fence });
  const { plain } = await import("../../rendering/terminal/text.ts");
  const how = { committed: "Released", queued: "Queued, to be released", spooled: "Spooled, to be released" };
  await session.show(
    { status: outcome, task_id: id, fence },
    () => `${how[outcome]}: task ${plain(id)}, which keeps fence ${fence}`,
  );
}
