/** What happened in the demo, told and then checked: the second agent's start, the chain, the audit trail, the events. */
import { once } from "node:events";
import type { Checkpoint, FleetClient, FleetEvent } from "../../shared/sdk/sdk.ts";
import type { Said } from "./process.ts";
import { percentile, type Timeline } from "./timeline.ts";

export interface Story {
  readonly taskId: string;
  readonly said: Said[];
  readonly events: FleetEvent[];
  /** The item that the first agent was working on when it was killed. */
  killedAt: string | null;
}

const EVENTS_MS = 10_000;

export function tellStory(timeline: Timeline, story: Story, said: Said): void {
  story.said.push(said);
  const who = String(said.agent).replace("surveyor", "agent");
  switch (said.did) {
    case "began":
      timeline.say(who, `begins: ${said.folders} folders to survey`);
      break;
    case "resumed":
      timeline.say(
        who,
        `resumes from ${said.from}, written by ${said.by}: ${said.done} done, next ${said.next}`,
        "note",
      );
      break;
    case "checkpoint":
      timeline.say(who, `checkpoint ${said.id}, ${said.done} done`, "good", said.ms as number);
      break;
    case "finished":
      timeline.say(who, `finished and finalized ${said.id}`, "good");
      break;
    default:
      timeline.say(who, `works on ${said.item}`);
  }
}

/** Every promise that the demo makes, looked up in the fleet and not in what the agents said. */
export async function checkEverything(
  timeline: Timeline,
  client: FleetClient,
  story: Story,
): Promise<boolean> {
  timeline.heading("What the fleet kept");
  const { checkpoints, corrupt } = await client.getCheckpointHistory(story.taskId, {
    order: "oldest",
    limit: 100,
  });
  const began = story.said.find(({ did }) => did === "began");
  const resumed = story.said.find(({ did }) => did === "resumed");
  const killedAfter = checkpoints.filter(({ metadata }) => metadata.agent_id === "surveyor-a").at(-1);
  const last = checkpoints.at(-1);
  const task = await client.getTask(story.taskId);
  const audit = await client.verifyAudit(story.taskId);
  const events = await eventsOf(story, audit.entries);
  const titles = last?.execution_state.completed_items.map(({ title }) => title) ?? [];

  const checks: [boolean, string][] = [
    [
      resumed?.from === killedAfter?.metadata.checkpoint_id && resumed?.next === story.killedAt,
      `continued exactly where the first agent was killed: at ${story.killedAt}`,
    ],
    [
      new Set(titles).size === titles.length && titles.length === began?.folders,
      `no item lost, none done twice: ${titles.length} of ${began?.folders}`,
    ],
    [
      corrupt.length === 0 && isChain(checkpoints),
      `${checkpoints.length} checkpoints, each linked to the one before it`,
    ],
    [audit.ok, `audit trail verifies: ${audit.entries} entries, head ${audit.head.slice(0, 16)}…`],
    [task?.state === "completed", `task ${task?.state}, finalized as ${last?.metadata.final_status}`],
    [events, `${story.events.length} events arrived, in order, one for each transition`],
  ];
  for (const [held, text] of checks) timeline.say(held ? "✓" : "✗", text, held ? "good" : "bad");

  const latencies = story.said.flatMap(({ ms }) => (typeof ms === "number" ? [ms] : []));
  timeline.say("", `checkpoint latency seen by the agents: ${summary(latencies)}`);
  timeline.heading("What the agents found");
  for (const item of last?.execution_state.completed_items ?? []) {
    timeline.say("", `${item.title.padEnd(22)} ${"notes" in item ? item.notes : ""}`);
  }
  return checks.every(([held]) => held);
}

function isChain(checkpoints: readonly Checkpoint[]): boolean {
  return checkpoints.every(({ metadata }, i) => {
    const before = checkpoints[i - 1]?.metadata.checkpoint_id;
    return before === undefined ? metadata.parent_ids.length === 0 : metadata.parent_ids.includes(before);
  });
}

/** Events come after the commit; waits for the one of the last transition. */
async function eventsOf(story: Story, transitions: number): Promise<boolean> {
  const deadline = AbortSignal.timeout(EVENTS_MS);
  while (story.events.length < transitions && !deadline.aborted) {
    await Promise.race([once(deadline, "abort"), new Promise((resolve) => setTimeout(resolve, 20))]);
  }
  return story.events.length === transitions && story.events.every(({ sequence }, i) => sequence === i + 1);
}

function summary(samples: readonly number[]): string {
  const [p50, p99, max] = [percentile(samples, 50), percentile(samples, 99), Math.max(...samples)];
  return `p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms, max ${max.toFixed(1)} ms`;
}
