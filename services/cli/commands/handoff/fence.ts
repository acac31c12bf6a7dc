// `fleet fence`: ownership of tasks. `check` is for tools and hooks, which call it before they act in an agent's name.

import { type Command, Option } from "commander";
import { ERROR_TABLE, FleetError, invalid } from "../../../../shared/protocol/errors.ts";
import { COMMAND_ID } from "../../input/call-options.ts";
import { bareId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { principalText } from "../../rendering/terminal/text.ts";
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
  const group = program.command("fence").description("Take and release tasks, and check fences.");
  const checkCommand = group
    .command("check")
    .summary("Check whether a fence is the task's current one.")
    .description(
      "Check whether a fence is the task's current one, before acting under it. The exit code is the answer:\n" +
        `0 current; ${FENCED.exit} the ownership was revoked or passed to another agent, so stop; ${UNAVAILABLE.exit} or ${TIMEOUT.exit} the fleet did not answer; ${INVALID.exit} the task never had this fence.`,
    )
    .argument("<task>", "the task")
    .argument("<fence>", "the fence to check", wholeNumber(0))
    .action(action(check));
  withExamples(checkCommand, (fleet) => ({
    "In a hook": `${fleet} fence check auth 3 --timeout 100ms || exit 2`,
  }));
  const takeCommand = group
    .command("take")
    .description(
      "Take a task: you become its owner, its fence rises, and a previous owner can no longer write.",
    )
    .argument("<task>", "the task")
    .addOption(
      new Option(
        "--expected-fence <n>",
        "take it only if it has this fence; 0: only if it was never taken",
      ).argParser(wholeNumber(0)),
    )
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .option("-q, --quiet", "print only the fence")
    .action(action(take));
  withExamples(takeCommand, (fleet) => ({
    "In a script": `FENCE=$(${fleet} fence take auth -q) && ${fleet} checkpoint -t auth --fence $FENCE --type qa --phase testing`,
    "Unless another agent has taken it since": `${fleet} fence take auth --expected-fence 3`,
  }));
  const releaseCommand = group
    .command("release")
    .description("Release a task: it has no owner any more. Its fence stays as it is and never falls.")
    .argument("<task>", "the task")
    .addOption(
      new Option("--fence <n>", "the fence under which you own it")
        .argParser(wholeNumber(1))
        .makeOptionMandatory(),
    )
    .option("--command-id <uuid>", COMMAND_ID, bareId)
    .action(action(release));
  withExamples(releaseCommand, (fleet) => ({ "The work is done": `${fleet} fence release auth --fence 3` }));
}

async function check(session: Session, id: string, fence: number): Promise<void> {
  const client = await session.client();
  const task = await client.getTask(id, session.deadline);
  // A task that does not exist yet was never taken.
  const { fence: current, owner } = task ?? { fence: 0, owner: null };
  if (fence > current) throw invalid("fence", `at most ${current}, the task's fence`, fence);
  if (fence < current) {
    throw new FleetError("FENCED", "the task's ownership has changed since this fence was given", {
      details: { task_id: id, fence, current_fence: current, owner },
    });
  }
  const { plain } = await import("../../rendering/terminal/text.ts");
  await session.show(
    { task_id: id, fence, current: true, owner },
    () =>
      `Current: task ${plain(id)} has fence ${fence}, ${owner === null ? "unowned" : `owned by ${principalText(owner)}`}`,
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
      : `${session.view.colors.green("Taken:")} task ${plain(id)}, by ${principalText(owner)}\nFence: ${fence}; give it with every command on the task`,
  );
}

async function release(session: Session, id: string, { commandId, fence }: ReleaseFlags): Promise<void> {
  const client = await session.client();
  const outcome = await client.releaseTask(id, { ...session.deadline, commandId, fence });
  const { plain } = await import("../../rendering/terminal/text.ts");
  const how = { committed: "Released", queued: "Queued for release", spooled: "Spooled for release" };
  await session.show(
    { status: outcome, task_id: id, fence },
    () => `${how[outcome]}: task ${plain(id)}, which keeps fence ${fence}`,
  );
}
