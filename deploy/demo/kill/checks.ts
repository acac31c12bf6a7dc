/** The checks of the first part: the second agent's start, and that no work was lost or done twice. */
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { commonChecks, printChecks, readRecords } from "../checks.ts";
import { notesOf } from "../folder-survey.ts";
import { percentile, type Timeline } from "../timeline.ts";
import type { KillScenario } from "./scenario.ts";

export async function checkKill(
  timeline: Timeline,
  client: FleetClient,
  { observer, killedAt }: KillScenario,
): Promise<boolean> {
  timeline.heading(`Checks of ${observer.taskId}`);
  const records = await readRecords(client, observer.taskId);
  const began = observer.message("began");
  const resumed = observer.message("resumed");
  const killedAfter = records.checkpoints.filter(({ metadata }) => metadata.agent_id === "surveyor-a").at(-1);
  const items = records.last?.execution_state.completed_items ?? [];
  const titles = new Set(items.map(({ title }) => title));

  const passed = printChecks(timeline, [
    [
      resumed?.from === killedAfter?.metadata.checkpoint_id && resumed?.next === killedAt,
      `surveyor-b continued exactly where surveyor-a was killed: at ${killedAt}`,
    ],
    [
      titles.size === items.length && items.length === began?.folders,
      `no item lost, none done twice: ${items.length} of ${began?.folders}`,
    ],
    ...(await commonChecks(client, observer, records)),
  ]);
  const latencies = observer.messages.flatMap(({ ms }) => (typeof ms === "number" ? [ms] : []));
  timeline.print("", `checkpoint latency, as the agents measured it: ${summary(latencies)}`);
  timeline.heading("Results of the survey");
  for (const item of items) timeline.print("", `${item.title.padEnd(22)} ${notesOf(item)}`);
  return passed;
}

function summary(samples: readonly number[]): string {
  const [p50, p99, max] = [percentile(samples, 50), percentile(samples, 99), Math.max(...samples)];
  return `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, max ${max.toFixed(1)} ms`;
}
