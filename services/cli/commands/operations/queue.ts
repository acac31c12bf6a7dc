// `fleet queue`: the commands that wait for the store, and the dead letters: queued commands that could not be applied.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { limitOption } from "../../input/limit.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextCommand } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

interface ListFlags {
  readonly from?: number;
  readonly limit?: number;
}

export function addQueue(program: Command, action: ActionFactory): void {
  const group = program
    .command("queue")
    .description("Show the queue of commands, and handle its dead letters.");
  const statusCommand = group
    .command("status")
    .description(
      "Show how many commands wait in the queue, the age of the oldest, and the size of the queue.",
    )
    .action(action(status));
  withExamples(statusCommand, (fleet) => ({
    "The state of the queue": `${fleet} queue status`,
    "For a monitor": `${fleet} queue status --json | jq '{depth, oldest_age_ms, dead}'`,
  }));
  addDead(group, action);
}

function addDead(group: Command, action: ActionFactory): void {
  const dead = group.command("dead").description("List, retry and drop commands that could not be applied.");
  const listCommand = dead
    .command("list")
    .description(
      "List dead letters, oldest first: their numbers, their commands, and why each was not applied.",
    )
    .addOption(new Option("--from <n>", "the number of the first letter").argParser(wholeNumber(1)))
    .addOption(limitOption(LIMITS.dead_limit_default, LIMITS.dead_limit_max))
    .action(action(list));
  withExamples(listCommand, (fleet) => ({
    "All dead letters": `${fleet} queue dead list`,
    "Their errors in full": `${fleet} queue dead list --json | jq '.letters[] | {seq, task_id, error}'`,
  }));
  const retryCommand = dead
    .command("retry")
    .description(
      "Put the command of a dead letter back into the queue, under its own id, and remove the letter.",
    )
    .argument("<number>", "the number of the letter, from `queue dead list`", wholeNumber(1))
    .action(action(retry));
  withExamples(retryCommand, (fleet) => ({ "When the cause is fixed": `${fleet} queue dead retry 17` }));
  const dropCommand = dead
    .command("drop")
    .description("Remove a dead letter for good. It cannot be retried any more.")
    .argument("<number>", "the number of the letter, from `queue dead list`", wholeNumber(1))
    .action(action(drop));
  withExamples(dropCommand, (fleet) => ({ "When the command is obsolete": `${fleet} queue dead drop 17` }));
}

async function status(session: Session): Promise<void> {
  const client = await session.client();
  const found = await client.admin.queueStatus(session.deadline);
  const { renderQueue } = await import("../../rendering/operations/queue.ts");
  await session.show(found, () => renderQueue(found, session.view));
}

async function list(session: Session, { from, limit }: ListFlags): Promise<void> {
  const client = await session.client();
  const page = await client.admin.deadLetters({
    ...session.deadline,
    ...(from !== undefined && { fromSeq: from }),
    ...(limit !== undefined && { limit }),
  });
  const next =
    page.next_seq === null
      ? undefined
      : nextCommand(session.programName, session.context.argv, {
          option: "--from",
          value: String(page.next_seq),
        });
  const { renderLetters } = await import("../../rendering/operations/queue.ts");
  await session.show(page, () =>
    renderLetters({ letters: page.letters, next, fleet: session.programName }, session.view),
  );
}

async function retry(session: Session, seq: number): Promise<void> {
  const client = await session.client();
  const done = await client.admin.retryDeadLetter(seq, session.deadline);
  const { renderRetriedLetter } = await import("../../rendering/operations/queue.ts");
  await session.show(done, () => renderRetriedLetter(done, session.view));
}

async function drop(session: Session, seq: number): Promise<void> {
  const client = await session.client();
  const done = await client.admin.dropDeadLetter(seq, session.deadline);
  await session.show(done, () => `Dropped: letter ${seq}; it cannot be retried any more`);
}
