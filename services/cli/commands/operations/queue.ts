// `fleet queue`: what waits while the store is away, and what came out of the queue that could not be applied.

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
    .description("Look at the queue of commands and at its dead letters.");
  const showing = group
    .command("status")
    .description("Show how many commands wait in the queue, since when, and how full it is.")
    .action(action(status));
  withExamples(showing, (fleet) => ({
    "Is anything waiting": `${fleet} queue status`,
    "For a monitor": `${fleet} queue status --json | jq '{depth, oldest_age_ms, dead}'`,
  }));
  addDead(group, action);
}

function addDead(group: Command, action: ActionFactory): void {
  const dead = group.command("dead").description("Look at commands that could not be applied, and decide.");
  const listing = dead
    .command("list")
    .description("List dead letters, oldest first: the command, why it could not be applied, and its number.")
    .addOption(new Option("--from <n>", "the first number wanted").argParser(wholeNumber(1)))
    .addOption(limitOption(LIMITS.dead_limit_default, LIMITS.dead_limit_max))
    .action(action(list));
  withExamples(listing, (fleet) => ({
    "What went wrong": `${fleet} queue dead list`,
    "Why, in full": `${fleet} queue dead list --json | jq '.letters[] | {seq, task_id, error}'`,
  }));
  const retrying = dead
    .command("retry")
    .description("Put the command of a dead letter back into the queue, under its own id; the letter goes.")
    .argument("<number>", "of the letter, as `dead list` shows it", wholeNumber(1))
    .action(action(retry));
  withExamples(retrying, (fleet) => ({ "Once its reason is gone": `${fleet} queue dead retry 17` }));
  const dropping = dead
    .command("drop")
    .description("Remove a dead letter for good; nobody can retry it any more.")
    .argument("<number>", "of the letter, as `dead list` shows it", wholeNumber(1))
    .action(action(drop));
  withExamples(dropping, (fleet) => ({ "When it is of no use any more": `${fleet} queue dead drop 17` }));
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
  await session.show(done, () => `Dropped: letter ${seq}; nobody can retry it any more`);
}
