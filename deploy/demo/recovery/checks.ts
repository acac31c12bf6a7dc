/** What the third act promises, looked up in the fleet: the checkpoints, the audit trail, the events, the alerts. */
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { type Check, commonChecks, type Kept, kept, tellChecks } from "../checks.ts";
import { type Entry, oneOwner } from "../owners.ts";
import { notesOf } from "../survey.ts";
import type { Timeline } from "../timeline.ts";
import type { Story } from "./cast.ts";
import { falsified } from "./damage.ts";
import type { Rescue } from "./play.ts";

export async function checkRecovery(
  timeline: Timeline,
  client: FleetClient,
  { stories, ended }: Rescue,
): Promise<boolean> {
  let held = true;
  for (const story of stories) held = (await checkStory(timeline, client, story)) && held;
  timeline.heading("What became of all of them");
  const alerts = await Promise.all(stories.map((story) => alertsOf(client, story)));
  const all = tellChecks(timeline, [
    [alerts.flat().length === 0, "every task went on by itself: nobody had to be alerted for one"],
    [ended.every((how) => how === 0), "all agents that nobody killed ended by themselves, without an error"],
  ]);
  return all && held;
}

/** Of what waits for a person. */
async function alertsOf(client: FleetClient, { witness: { taskId } }: Story): Promise<string[]> {
  const { alerts } = await client.admin.listAlerts({ taskId });
  return alerts
    .map(({ alert }) => alert.type)
    .filter((type) => type === "RECOVERY_BLOCKED" || type === "HANDOFF_FAILED");
}

async function checkStory(timeline: Timeline, client: FleetClient, story: Story): Promise<boolean> {
  const { witness } = story;
  timeline.heading(`What the fleet kept of ${witness.taskId}`);
  const found = await kept(client, witness.taskId);
  const { entries } = await client.getAudit(witness.taskId, { limit: 200 });
  const { held, owners } = oneOwner(entries.map(({ entry }) => JSON.parse(entry) as Entry));
  tellTimes(timeline, story);
  return tellChecks(timeline, [
    recoveredOnce(story),
    continued(story, found),
    eachDone(story, found),
    [held, `one owner at any time, and nobody else wrote: ${owners.join(", then ")}`],
    ...(story.kind === "hang" ? [refused(story, found)] : []),
    ...(story.damaged === null ? [] : [neverServed(story, found)]),
    ...(await commonChecks(client, witness, found)),
  ]);
}

function tellTimes(timeline: Timeline, { agent, failedAtMs, witness }: Story): void {
  const after = (type: string): string => {
    const event = witness.events.find((one) => one.type === type);
    return `${((Date.parse(event?.time ?? "") - failedAtMs) / 1_000).toFixed(2)} s`;
  };
  timeline.say(
    "",
    `after ${agent} did nothing any more: noticed ${after("AGENT_FAILED")}, offered ${after("HANDOFF_OFFERED")}, going on ${after("RECOVERY_COMPLETED")}`,
  );
}

const FAILED_AS = { crash: "crash lease_lapsed", hang: "timeout step_overdue", disk: "crash lease_lapsed" };

function recoveredOnce({ kind, witness }: Story): Check {
  const told = (type: string) => witness.events.filter((event) => event.type === type);
  const [failed, ...more] = told("AGENT_FAILED");
  const data = failed?.data as { class?: string; signal?: string } | undefined;
  const as = `${data?.class} ${data?.signal}`;
  const isOnce = ["RECOVERY_INITIATED", "RECOVERY_COMPLETED"].every((type) => told(type).length === 1);
  return [
    more.length === 0 && as === FAILED_AS[kind] && isOnce,
    `one failure was seen (${as}), and recovered by one attempt`,
  ];
}

/** Where the agent stopped, or, when its last checkpoint is damaged, one item before. */
function continued({ agent, stoppedAt, damaged, witness }: Story, { checkpoints }: Kept): Check {
  const sound = checkpoints.findLast(({ metadata }) => metadata.agent_id === agent);
  const lost = witness.said.findLast((said) => said.did === "done" && said.agent === agent)?.item;
  const resumed = witness.heard("resumed");
  const where = damaged === null ? "exactly where it stopped" : "from the newest sound checkpoint";
  return [
    resumed?.from === sound?.metadata.checkpoint_id &&
      resumed?.next === (damaged === null ? stoppedAt : lost),
    `${resumed?.agent} continued ${where}: at ${resumed?.next}`,
  ];
}

function eachDone({ damaged, witness }: Story, { checkpoints, last }: Kept): Check {
  const begun = checkpoints[0]?.execution_state;
  const folders = [...(begun?.completed_items ?? []), ...(begun?.pending_items ?? [])];
  const names = (all: readonly { title: string }[]) => all.map(({ title }) => title).sort();
  const done = last?.execution_state.completed_items ?? [];
  const worked = witness.said.filter(({ did }) => did === "done").length;
  const again = damaged === null ? 0 : 1;
  const lost = again === 0 ? "no work was lost" : "what was lost with the damaged checkpoint was done again";
  return [
    names(done).join() === names(folders).join() && worked === folders.length + again,
    `each of ${folders.length} folders is done once; ${lost}`,
  ];
}

/** Refused to its face, and nothing of it is in the store. */
function refused({ agent, witness }: Story, { checkpoints }: Kept): Check {
  const refusal = witness.heard("refused", agent);
  const after = checkpoints.findIndex(({ metadata }) => metadata.agent_id !== agent);
  const isGone = checkpoints.slice(after).every(({ metadata }) => metadata.agent_id !== agent);
  return [
    refusal?.code === "FENCED" && after > 0 && isGone,
    `${agent}, when it came back, was refused (${refusal?.code}), and left no trace`,
  ];
}

function neverServed({ damaged, witness }: Story, { checkpoints, last }: Kept): Check {
  const { checkpointId, text } = damaged as NonNullable<Story["damaged"]>;
  const isNoted = witness.events.some(
    ({ type, data }) =>
      type === "CHECKPOINT_CORRUPTED" && (data as { checkpointId: string }).checkpointId === checkpointId,
  );
  const isServed = checkpoints.some(({ metadata }) => metadata.checkpoint_id === checkpointId);
  const isCopied = JSON.stringify(checkpoints).includes(falsified(text));
  const isRight = last?.execution_state.completed_items.some((item) => notesOf(item) === text) ?? false;
  return [
    isNoted && !isServed && !isCopied && isRight,
    `the damaged checkpoint is quarantined; what it says wrongly is in no other`,
  ];
}
