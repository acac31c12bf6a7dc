/** The checks of the second part, against the checkpoints, the handoffs and the audit trail. */
import type { FleetClient, Handoff } from "../../../shared/sdk/sdk.ts";
import { type CheckResult, commonChecks, printChecks, readRecords, type TaskRecords } from "../checks.ts";
import { notesOf } from "../folder-survey.ts";
import { type OwnershipEntry, ownerHistory } from "../owner-history.ts";
import type { Timeline } from "../timeline.ts";
import { AGENT_TYPES, type HandoffScenario } from "./scenario.ts";

export async function checkHandoff(
  timeline: Timeline,
  client: FleetClient,
  result: HandoffScenario,
): Promise<boolean> {
  const { observer } = result;
  timeline.heading(`Checks of ${observer.taskId}`);
  const records = await readRecords(client, observer.taskId);
  const handoffs = (await client.handoffs({ taskId: observer.taskId })).handoffs.toReversed();
  const { entries } = await client.getAudit(observer.taskId, { limit: 200 });
  const trail = entries.map(({ entry }) => JSON.parse(entry) as OwnershipEntry);
  const { isExclusive, owners } = ownerHistory(trail);
  for (const handoff of handoffs) printLatency(timeline, handoff);
  return printChecks(timeline, [
    surveyedOnce(result, records),
    continued(result, records),
    [isExclusive, `one owner at any time, and no other writer: ${owners.join(", then ")}`],
    [
      handoffs.map(({ state, accepted_by }) => `${accepted_by} ${state}`).join() ===
        "agent-b confirmed,agent-c confirmed",
      `both handoffs confirmed: ${handoffs.map(({ to_agent_type, accepted_by }) => `${accepted_by} (${to_agent_type})`).join(", ")}`,
    ],
    refused(result, records),
    recounted(records),
    ...(await commonChecks(client, observer, records)),
    [result.exits.every((exit) => exit === 0), "all agents ended with exit code 0"],
  ]);
}

function printLatency(timeline: Timeline, handoff: Handoff): void {
  const { from_agent, accepted_by, trigger } = handoff;
  const at = (time: string | null): number => Date.parse(time ?? "");
  const toAccepted = at(handoff.accepted_at) - at(handoff.requested_at);
  const toConfirmed = at(handoff.ended_at) - at(handoff.accepted_at);
  timeline.print(
    "",
    `${from_agent} to ${accepted_by} (${trigger?.reason}): accepted after ${toAccepted} ms, first checkpoint ${toConfirmed} ms later`,
  );
}

/** Every folder of the first checkpoint is done in the last one, and was surveyed once. */
function surveyedOnce({ observer }: HandoffScenario, { checkpoints, last }: TaskRecords): CheckResult {
  const begun = checkpoints[0]?.execution_state;
  const folders = [...(begun?.completed_items ?? []), ...(begun?.pending_items ?? [])].map(
    ({ title }) => title,
  );
  const done = last?.execution_state.completed_items.map(({ title }) => title) ?? [];
  const surveyed = observer.messages.filter(({ did }) => did === "surveyed");
  const isSame = (titles: readonly unknown[]) => [...titles].sort().join() === [...folders].sort().join();
  const by = Object.keys(AGENT_TYPES).map((agent) => surveyed.filter((one) => one.agent === agent).length);
  return [
    isSame(surveyed.map(({ item }) => item)) && isSame(done.slice(0, -1)),
    `each of ${folders.length} folders surveyed exactly once: ${by[0]} by agent-a, ${by[1]} by agent-b`,
  ];
}

function continued({ observer }: HandoffScenario, { checkpoints }: TaskRecords): CheckResult {
  const handedOver = checkpoints.filter(({ metadata }) => metadata.agent_id === "agent-a").at(-1);
  const next = handedOver?.execution_state.pending_items[0]?.title;
  const first = observer.message("working", "agent-b")?.item;
  const from = observer.message("resumed", "agent-b")?.from;
  return [
    next !== undefined && next === first && from === handedOver?.metadata.checkpoint_id,
    `agent-b continued exactly where agent-a stopped: at ${first}`,
  ];
}

/** The late write got an error, and nothing of it is stored. */
function refused({ observer }: HandoffScenario, { checkpoints }: TaskRecords): CheckResult {
  const refusal = observer.message("refused", "agent-a");
  const after = checkpoints.findIndex(({ metadata }) => metadata.agent_id !== "agent-a");
  const hasNoLateWrite = checkpoints.slice(after).every(({ metadata }) => metadata.agent_id !== "agent-a");
  return [
    refusal?.code === "FENCED" && after > 0 && hasNoLateWrite,
    `the late write of agent-a was refused (${refusal?.code}), and nothing of it is stored`,
  ];
}

function recounted({ last }: TaskRecords): CheckResult {
  const { agent_id, agent_type } = last?.metadata ?? {};
  const items = last?.execution_state.completed_items ?? [];
  const verdict = notesOf(items.at(-1) ?? { title: "" });
  const all = items.length - 1;
  return [
    agent_type === "qa" && verdict === `${all} of ${all} results confirmed`,
    `an agent of another type did the last phase: ${agent_id} (${agent_type}), ${verdict}`,
  ];
}
