/** What the second act promises, looked up in the fleet: the checkpoints, the records of the handoffs, the audit trail. */
import type { FleetClient, Handoff } from "../../../shared/sdk/sdk.ts";
import { type Check, commonChecks, type Kept, kept, tellChecks } from "../checks.ts";
import { type Entry, oneOwner } from "../owners.ts";
import { notesOf } from "../survey.ts";
import type { Timeline } from "../timeline.ts";
import { type Relay, TYPES } from "./play.ts";

export async function checkHandoff(timeline: Timeline, client: FleetClient, relay: Relay): Promise<boolean> {
  const { witness } = relay;
  timeline.heading(`What the fleet kept of ${witness.taskId}`);
  const found = await kept(client, witness.taskId);
  const handoffs = (await client.handoffs({ taskId: witness.taskId })).handoffs.toReversed();
  const { entries } = await client.getAudit(witness.taskId, { limit: 200 });
  const trail = entries.map(({ entry }) => JSON.parse(entry) as Entry);
  const { held, owners } = oneOwner(trail);
  for (const handoff of handoffs) tellLatency(timeline, handoff);
  return tellChecks(timeline, [
    surveyedOnce(relay, found),
    continued(relay, found),
    [held, `one owner at any time, and nobody else wrote: ${owners.join(", then ")}`],
    [
      handoffs.map(({ state, accepted_by }) => `${accepted_by} ${state}`).join() ===
        "agent-b confirmed,agent-c confirmed",
      `both handoffs confirmed: ${handoffs.map(({ to_agent_type, accepted_by }) => `${accepted_by} (${to_agent_type})`).join(", ")}`,
    ],
    refused(relay, found),
    reviewed(found),
    ...(await commonChecks(client, witness, found)),
    [relay.ended.every((how) => how === 0), "all agents ended by themselves, without an error"],
  ]);
}

function tellLatency(timeline: Timeline, handoff: Handoff): void {
  const { from_agent, accepted_by, trigger } = handoff;
  const at = (time: string | null): number => Date.parse(time ?? "");
  const accepting = at(handoff.accepted_at) - at(handoff.requested_at);
  const beginning = at(handoff.ended_at) - at(handoff.accepted_at);
  timeline.say(
    "",
    `${from_agent} to ${accepted_by}, because of ${trigger?.reason}: requested to accepted ${accepting} ms, accepted to first checkpoint ${beginning} ms`,
  );
}

/** What the first checkpoint had before it is done in the last one, and was worked on once. */
function surveyedOnce({ witness }: Relay, { checkpoints, last }: Kept): Check {
  const begun = checkpoints[0]?.execution_state;
  const folders = [...(begun?.completed_items ?? []), ...(begun?.pending_items ?? [])].map(
    ({ title }) => title,
  );
  const done = last?.execution_state.completed_items.map(({ title }) => title) ?? [];
  const surveyed = witness.said.filter(({ did }) => did === "surveyed");
  const isSame = (titles: readonly unknown[]) => [...titles].sort().join() === [...folders].sort().join();
  const by = Object.keys(TYPES).map((agent) => surveyed.filter((one) => one.agent === agent).length);
  return [
    isSame(surveyed.map(({ item }) => item)) && isSame(done.slice(0, -1)),
    `each of ${folders.length} folders surveyed exactly once: ${by[0]} by agent-a, ${by[1]} by agent-b`,
  ];
}

function continued({ witness }: Relay, { checkpoints }: Kept): Check {
  const handedOver = checkpoints.filter(({ metadata }) => metadata.agent_id === "agent-a").at(-1);
  const next = handedOver?.execution_state.pending_items[0]?.title;
  const first = witness.heard("working", "agent-b")?.item;
  const from = witness.heard("resumed", "agent-b")?.from;
  return [
    next !== undefined && next === first && from === handedOver?.metadata.checkpoint_id,
    `agent-b continued exactly where agent-a stopped: at ${first}`,
  ];
}

/** Refused to its face, and nothing of it is in the store. */
function refused({ witness }: Relay, { checkpoints }: Kept): Check {
  const refusal = witness.heard("refused", "agent-a");
  const after = checkpoints.findIndex(({ metadata }) => metadata.agent_id !== "agent-a");
  const isGone = checkpoints.slice(after).every(({ metadata }) => metadata.agent_id !== "agent-a");
  return [
    refusal?.code === "FENCED" && after > 0 && isGone,
    `agent-a, frozen and woken, was refused (${refusal?.code}), and left no trace`,
  ];
}

function reviewed({ last }: Kept): Check {
  const { agent_id, agent_type } = last?.metadata ?? {};
  const work = last?.execution_state.completed_items ?? [];
  const verdict = notesOf(work.at(-1) ?? { title: "" });
  const all = work.length - 1;
  return [
    agent_type === "qa" && verdict === `${all} of ${all} agree`,
    `another type of agent finished it in its phase: ${agent_id} (${agent_type}), ${verdict}`,
  ];
}
