/**
 * Compares the counters of the store with the records that a pass has verified. Other writers create tasks
 * during a pass, so the counters give limits: a pass finds every task that existed when it began, and none that
 * does not exist at the end of its walk.
 */
import { NO_TASK } from "../../protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { ScrubTally } from "../../protocol/scrub.ts";
import type { Reader } from "../../store/store.ts";
import { readCount } from "../kv/counters.ts";
import { ofTask, type ScrubStep, TaskScrub } from "./scrub-reader.ts";

/** The counters when the walk of a pass began. */
export interface CountersAtStart {
  readonly tasks: number;
}

export async function readCountersAtStart(reader: Reader): Promise<CountersAtStart> {
  return { tasks: await readCount(reader, "tasks") };
}

/** `atStart` is undefined for a pass that an earlier version began. `before`: the records that the earlier steps of the walk have verified. */
export async function verifyCounters(
  step: ScrubStep,
  atStart: CountersAtStart | undefined,
  before: Pick<ScrubTally, "tasks" | "checkpoints">,
): Promise<void> {
  const tasks = before.tasks + step.tally.tasks;
  const checkpoints = before.checkpoints + step.tally.checkpoints;
  const counted = {
    tasks: await readCount(step.reader, "tasks"),
    checkpoints: await readCount(step.reader, "checkpoints"),
  };
  const scrub = new TaskScrub(step, DEFAULT_TENANT, NO_TASK, { canMark: false, found: 0 });
  if (atStart !== undefined && tasks < atStart.tasks)
    scrub.note(ofTask("record", "the store has fewer tasks than it counts"));
  if (tasks > counted.tasks) scrub.note(ofTask("record", "the store has more tasks than it counts"));
  // The counter is of all that were ever created: retention removes some during a pass.
  if (checkpoints > counted.checkpoints)
    scrub.note(ofTask("record", "the store has more checkpoints than it counts"));
}
