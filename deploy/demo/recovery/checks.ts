/** The checks of the third part, against the checkpoints, the audit trail, the events and the alerts. */
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { type CheckResult, commonChecks, printChecks, readRecords, type TaskRecords } from "../checks.ts";
import { notesOf } from "../folder-survey.ts";
import { type OwnershipEntry, ownerHistory } from "../owner-history.ts";
import type { Timeline } from "../timeline.ts";
import { falsified } from "./damage.ts";
import type { FailedTask } from "./failed-task.ts";
import type { RecoveryScenario } from "./scenario.ts";

export async function checkRecovery(
  timeline: Timeline,
  client: FleetClient,
  { tasks, exits }: RecoveryScenario,
): Promise<boolean> {
  let passed = true;
  for (const task of tasks) passed = (await checkTask(timeline, client, task)) && passed;
  timeline.heading("Checks of all tasks");
  const alerts = await Promise.all(tasks.map((task) => operatorAlerts(client, task)));
  const all = printChecks(timeline, [
    [alerts.flat().length === 0, "every task was recovered without an operator"],
    [exits.every((exit) => exit === 0), "all agents that were not killed ended with exit code 0"],
  ]);
  return all && passed;
}

/** The alerts that ask for an operator. */
async function operatorAlerts(client: FleetClient, { observer: { taskId } }: FailedTask): Promise<string[]> {
  const { alerts } = await client.admin.listAlerts({ taskId });
  return alerts
    .map(({ alert }) => alert.type)
    .filter((type) => type === "RECOVERY_BLOCKED" || type === "HANDOFF_FAILED");
}

async function checkTask(timeline: Timeline, client: FleetClient, task: FailedTask): Promise<boolean> {
  const { observer } = task;
  timeline.heading(`Checks of ${observer.taskId}`);
  const records = await readRecords(client, observer.taskId);
  const { entries } = await client.getAudit(observer.taskId, { limit: 200 });
  const { isExclusive, owners } = ownerHistory(
    entries.map(({ entry }) => JSON.parse(entry) as OwnershipEntry),
  );
  printTimes(timeline, task);
  return printChecks(timeline, [
    recoveredOnce(task),
    continued(task, records),
    eachDone(task, records),
    [isExclusive, `one owner at any time, and no other writer: ${owners.join(", then ")}`],
    ...(task.kind === "hang" ? [refused(task, records)] : []),
    ...(task.damaged === null ? [] : [neverServed(task, records)]),
    ...(await commonChecks(client, observer, records)),
  ]);
}

function printTimes(timeline: Timeline, { agent, failedAtMs, observer }: FailedTask): void {
  const after = (type: string): string => {
    const event = observer.events.find((one) => one.type === type);
    return `${((Date.parse(event?.time ?? "") - failedAtMs) / 1_000).toFixed(2)} s`;
  };
  timeline.print(
    "",
    `after ${agent} failed: detected in ${after("AGENT_FAILED")}, offered in ${after("HANDOFF_OFFERED")}, recovered in ${after("RECOVERY_COMPLETED")}`,
  );
}

const FAILED_AS = { crash: "crash lease_lapsed", hang: "timeout step_overdue", disk: "crash lease_lapsed" };

function recoveredOnce({ kind, observer }: FailedTask): CheckResult {
  const eventsOf = (type: string) => observer.events.filter((event) => event.type === type);
  const [failed, ...more] = eventsOf("AGENT_FAILED");
  const data = failed?.data as { class?: string; signal?: string } | undefined;
  const as = `${data?.class} ${data?.signal}`;
  const isOnce = ["RECOVERY_INITIATED", "RECOVERY_COMPLETED"].every((type) => eventsOf(type).length === 1);
  return [
    more.length === 0 && as === FAILED_AS[kind] && isOnce,
    `one failure was detected (${as}), and one attempt recovered the task`,
  ];
}

/** The next agent starts where the failed one stopped or, if the last checkpoint is damaged, one item earlier. */
function continued(
  { agent, stoppedAt, damaged, observer }: FailedTask,
  { checkpoints }: TaskRecords,
): CheckResult {
  const sound = checkpoints.findLast(({ metadata }) => metadata.agent_id === agent);
  const lost = observer.messages.findLast((one) => one.did === "done" && one.agent === agent)?.item;
  const resumed = observer.message("resumed");
  const where = damaged === null ? `exactly where ${agent} stopped` : "from the newest sound checkpoint";
  return [
    resumed?.from === sound?.metadata.checkpoint_id &&
      resumed?.next === (damaged === null ? stoppedAt : lost),
    `${resumed?.agent} continued ${where}: at ${resumed?.next}`,
  ];
}

function eachDone({ damaged, observer }: FailedTask, { checkpoints, last }: TaskRecords): CheckResult {
  const begun = checkpoints[0]?.execution_state;
  const folders = [...(begun?.completed_items ?? []), ...(begun?.pending_items ?? [])];
  const names = (all: readonly { title: string }[]) => all.map(({ title }) => title).sort();
  const done = last?.execution_state.completed_items ?? [];
  const worked = observer.messages.filter(({ did }) => did === "done").length;
  const repeated = damaged === null ? 0 : 1;
  const lost = repeated === 0 ? "no work was lost" : "only the item of the damaged checkpoint was repeated";
  return [
    names(done).join() === names(folders).join() && worked === folders.length + repeated,
    `each of ${folders.length} folders is done once; ${lost}`,
  ];
}

/** The late write got an error, and nothing of it is stored. */
function refused({ agent, observer }: FailedTask, { checkpoints }: TaskRecords): CheckResult {
  const refusal = observer.message("refused", agent);
  const after = checkpoints.findIndex(({ metadata }) => metadata.agent_id !== agent);
  const hasNoLateWrite = checkpoints.slice(after).every(({ metadata }) => metadata.agent_id !== agent);
  return [
    refusal?.code === "FENCED" && after > 0 && hasNoLateWrite,
    `the late write of ${agent} was refused (${refusal?.code}), and nothing of it is stored`,
  ];
}

function neverServed({ damaged, observer }: FailedTask, { checkpoints, last }: TaskRecords): CheckResult {
  const { checkpointId, text } = damaged as NonNullable<FailedTask["damaged"]>;
  const isDetected = observer.events.some(
    ({ type, data }) =>
      type === "CHECKPOINT_CORRUPTED" && (data as { checkpointId: string }).checkpointId === checkpointId,
  );
  const isServed = checkpoints.some(({ metadata }) => metadata.checkpoint_id === checkpointId);
  const isCopied = JSON.stringify(checkpoints).includes(falsified(text));
  const isRight = last?.execution_state.completed_items.some((item) => notesOf(item) === text) ?? false;
  return [
    isDetected && !isServed && !isCopied && isRight,
    "the damaged checkpoint is quarantined, and no other one contains its wrong text",
  ];
}
