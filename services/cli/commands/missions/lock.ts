// `fleet lock`: holds, renews and releases the files of a mission.

import type { Command } from "commander";
import { toSnake } from "../../../../shared/sdk/case-convert.ts";
import { secondsOrDuration } from "../../input/duration.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { untilInterrupted } from "../../runtime/sigint.ts";
import { fenceOption, MISSION_HELP, namedMission } from "./named-mission.ts";

interface Flags {
  readonly mission?: string;
  readonly purpose?: string;
  readonly sortie?: string;
  /** Milliseconds. */
  readonly expires?: number;
  readonly wait?: number;
  readonly force?: true;
  readonly fence?: number;
}

export function addLock(program: Command, action: ActionFactory): void {
  const group = program.command("lock").description("Hold, renew, release and list the files of a mission.");
  const acquisition = group
    .command("acquire")
    .description("Hold a file, so that no other agent of the mission does.")
    .argument("<path>", "the file, relative to the workspace")
    .option("--mission <id>", MISSION_HELP)
    .option("--purpose <text>", "what the file is changed for")
    .option("--sortie <id>", "the sortie with which the lock ends")
    .option(
      "--expires <time>",
      "the end of the lock, if it is not renewed, such as 10m (else 5m)",
      secondsOrDuration("1s"),
    )
    .option(
      "--wait <time>",
      "wait so long while another agent holds the file; Ctrl-C ends the wait",
      secondsOrDuration("0s"),
    )
    .addOption(fenceOption())
    .action(action(acquire));
  withExamples(acquisition, (fleet) => ({
    "A specialist holds a file": `${fleet} lock acquire src/auth.ts --purpose "login route" --wait 1m --agent specialist-1`,
  }));
  group
    .command("renew")
    .description("Hold a file longer.")
    .argument("<path>", "the file")
    .option("--mission <id>", MISSION_HELP)
    .option("--expires <time>", "the end of the lock from now on, such as 10m", secondsOrDuration("1s"))
    .addOption(fenceOption())
    .action(action(renew));
  const releasing = group
    .command("release")
    .description("Release a file, or wait for it no longer. The agent that waits longest gets it.")
    .argument("<path>", "the file")
    .option("--mission <id>", MISSION_HELP)
    .option("--force", "release the lock of another agent; for the coordinator and for people")
    .addOption(fenceOption())
    .action(action(release));
  withExamples(releasing, (fleet) => ({
    "An operator releases a forgotten lock": `${fleet} lock release src/auth.ts --force`,
  }));
  group
    .command("list")
    .description("List the files that agents hold, and the agents that wait for them.")
    .option("--mission <id>", MISSION_HELP)
    .action(action(list));
}

/** The exit code of a process that Ctrl-C has ended. */
const INTERRUPTED_EXIT = 130;

async function acquire(session: Session, path: string, flags: Flags): Promise<void> {
  const { mission: id, purpose, sortie: sortieId, expires: timeoutMs, wait: waitMs = 0, fence } = flags;
  const { handle } = await namedMission(session, id, { fence });
  const { signal } = interruption();
  try {
    const result = await handle.acquireLock(path, { purpose, sortieId, timeoutMs, waitMs, signal });
    await session.show(
      toSnake(result),
      () => `Locked: ${result.path}\nFence: ${result.fence}\nUntil: ${result.until}`,
    );
  } catch (error) {
    if (!signal.aborted) throw error;
    session.notice(`The wait for ${path} has ended, and the file is not held.`);
    session.exitCode = INTERRUPTED_EXIT;
  }
}

function interruption(): AbortController {
  const ended = new AbortController();
  void untilInterrupted().then(() => ended.abort());
  return ended;
}

async function renew(session: Session, path: string, flags: Flags): Promise<void> {
  const { mission: id, expires: timeoutMs, fence } = flags;
  const { handle } = await namedMission(session, id, { fence });
  const result = await handle.renewLock(path, { ...session.deadline, timeoutMs });
  await session.show(toSnake(result), () => `Renewed: ${result.path}\nUntil: ${result.until}`);
}

async function release(session: Session, path: string, flags: Flags): Promise<void> {
  const { mission: id, force = false, fence } = flags;
  const { handle } = await namedMission(session, id, { fence });
  const result = await handle.releaseLock(path, { ...session.deadline, force });
  await session.show(toSnake(result), () =>
    result.heldBy === null
      ? `Released: ${result.path}`
      : `Released: ${result.path}\nNow held by: ${result.heldBy}`,
  );
}

async function list(session: Session, flags: Flags): Promise<void> {
  const { handle, mission } = await namedMission(session, flags.mission);
  const locks = await handle.locks(session.deadline);
  const { renderLocks } = await import("../../rendering/missions/locks.ts");
  await session.show({ locks }, () => renderLocks(mission, locks, session.view));
}
