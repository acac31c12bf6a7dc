/** What the first act promises: the second agent's start, and that nothing was lost or done twice. */
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { commonChecks, kept, tellChecks } from "../checks.ts";
import { notesOf } from "../survey.ts";
import { percentile, type Timeline } from "../timeline.ts";
import type { Killing } from "./play.ts";

export async function checkKill(
  timeline: Timeline,
  client: FleetClient,
  { witness, killedAt }: Killing,
): Promise<boolean> {
  timeline.heading(`What the fleet kept of ${witness.taskId}`);
  const found = await kept(client, witness.taskId);
  const began = witness.heard("began");
  const resumed = witness.heard("resumed");
  const killedAfter = found.checkpoints.filter(({ metadata }) => metadata.agent_id === "surveyor-a").at(-1);
  const items = found.last?.execution_state.completed_items ?? [];
  const titles = new Set(items.map(({ title }) => title));

  const held = tellChecks(timeline, [
    [
      resumed?.from === killedAfter?.metadata.checkpoint_id && resumed?.next === killedAt,
      `continued exactly where the first agent was killed: at ${killedAt}`,
    ],
    [
      titles.size === items.length && items.length === began?.folders,
      `no item lost, none done twice: ${items.length} of ${began?.folders}`,
    ],
    ...(await commonChecks(client, witness, found)),
  ]);
  const latencies = witness.said.flatMap(({ ms }) => (typeof ms === "number" ? [ms] : []));
  timeline.say("", `checkpoint latency seen by the agents: ${summary(latencies)}`);
  timeline.heading("What the agents found");
  for (const item of items) timeline.say("", `${item.title.padEnd(22)} ${notesOf(item)}`);
  return held;
}

function summary(samples: readonly number[]): string {
  const [p50, p99, max] = [percentile(samples, 50), percentile(samples, 99), Math.max(...samples)];
  return `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, max ${max.toFixed(1)} ms`;
}
