/**
 * The third part: three tasks lose their agents at once. One agent is killed, one hangs, and the third is killed while its newest checkpoint
 * is damaged on disk. No agent reports it; the fleet detects the failures and offers the tasks to waiting agents.
 */
import type { DemoFleet } from "../fleet.ts";
import { type DemoProcess, startAgent } from "../process.ts";
import { TaskObserver } from "../task-observer.ts";
import type { Timeline } from "../timeline.ts";
import { damage, falsified } from "./damage.ts";
import { AGENT_TYPE, FAILING_AGENTS, type FailedTask, type FailureKind } from "./failed-task.ts";
import { printRecoveryEvent, printRecoveryMessage } from "./transcript.ts";

const PROGRAM = "deploy/demo/recovery/agent.ts";
/** The items that the failing agents finish first. */
const STOPS_AFTER = 4;
/** The duration that the hanging agent announces for its step. */
const STEP_MS = 500;

export interface RecoveryScenario {
  readonly tasks: readonly FailedTask[];
  /** The exits of the agents that were not killed. */
  readonly exits: readonly Awaited<DemoProcess["ended"]>[];
}

export async function runRecovery(timeline: Timeline, fleet: DemoFleet): Promise<RecoveryScenario> {
  const { client, env, storeFile } = fleet;
  const kinds = (Object.keys(FAILING_AGENTS) as FailureKind[]).filter(
    (kind) => kind !== "disk" || storeFile !== null,
  );
  const suffix = Date.now().toString(36);
  const observers = kinds.map((kind) => new TaskObserver(`${kind}-${suffix}`));
  const taskIds = observers.map(({ taskId }) => taskId);
  printRules(timeline, fleet, taskIds);
  await Promise.all(
    observers.map((one) => one.observe(client, (event) => printRecoveryEvent(timeline, event))),
  );

  const start = (agent: string, ...args: string[]): DemoProcess =>
    startAgent(PROGRAM, [agent, ...args], env, (message) => {
      observers.find(({ taskId }) => taskId === message.task)?.messages.push(message);
      printRecoveryMessage(timeline, message);
    });
  const context = { timeline, storeFile, start };
  const failures = observers.map((observer, i) => FAILURES[kinds[i] as FailureKind](context, observer));
  timeline.print("demo", `${kinds.length} agents begin, and ${kinds.length} spare agents wait for an offer`);
  const spares = kinds.map((_, i) => start(`spare-${i + 1}`, "wait", ...taskIds));
  const [any] = observers as [TaskObserver];
  const outcomes = await any.all("the tasks are recovered", failures);
  const survivors = [...outcomes.flatMap(({ survivor }) => survivor ?? []), ...spares];
  const exits = await any.all(
    "all agents have ended",
    survivors.map((one) => one.ended),
  );
  timeline.print("demo", `the other processes ended, with exit codes ${exits.join(", ")}`);
  return { tasks: outcomes.map(({ task }) => task), exits };
}

function printRules(
  timeline: Timeline,
  { silenceMs, storeFile }: DemoFleet,
  taskIds: readonly string[],
): void {
  timeline.heading(`Part 3: agents fail without a report, and are replaced (tasks ${taskIds.join(", ")})`);
  const limit = silenceMs === null ? "as long as the fleet's policy says" : `for ${silenceMs / 1_000} s`;
  timeline.print("demo", `an agent that sends no heartbeats ${limit} counts as failed`);
  if (storeFile === null)
    timeline.print("demo", "no checkpoint is damaged, because the store is not the demo's own", "note");
}

interface FailureContext {
  readonly timeline: Timeline;
  readonly storeFile: string | null;
  readonly start: (agent: string, ...args: string[]) => DemoProcess;
}

interface FailureOutcome {
  readonly task: FailedTask;
  /** The failed agent, if it was not killed. */
  readonly survivor?: DemoProcess;
}

const FAILURES: Readonly<
  Record<FailureKind, (context: FailureContext, observer: TaskObserver) => Promise<FailureOutcome>>
> = {
  async crash(context, observer) {
    const { process, task } = await beginTask(context, observer, "crash");
    return { task: await killAgent(context, process, task) };
  },

  async hang(context, observer) {
    const { process, task } = await beginTask(context, observer, "hang", String(STEP_MS));
    await recovered(observer);
    context.timeline.print("demo", `hang: ${task.agent} returns from its step`, "bad");
    process.child.stdin?.end("continue\n");
    return { task, survivor: process };
  },

  async disk(context, observer) {
    const { process, task } = await beginTask(context, observer, "disk");
    const newest = observer.messages.findLast(({ did }) => did === "done");
    const damaged = { checkpointId: String(newest?.checkpoint), text: String(newest?.notes) };
    const copies = await damage(context.storeFile ?? "", { ...damaged, agentType: AGENT_TYPE });
    const change = `"${damaged.text.slice(0, 9)}…" now reads "${falsified(damaged.text).slice(0, 9)}…"`;
    context.timeline.print(
      "demo",
      `disk: one bit of ${damaged.checkpointId} is flipped on disk (copies: ${copies}): ${change}`,
      "bad",
    );
    return { task: await killAgent(context, process, { ...task, damaged }) };
  },
};

/** Starts an agent that begins the task, and waits until it hangs at one of its items. */
async function beginTask(
  { start }: FailureContext,
  observer: TaskObserver,
  kind: FailureKind,
  ...more: string[]
): Promise<{ process: DemoProcess; task: FailedTask }> {
  const agent = FAILING_AGENTS[kind];
  const process = start(agent, "begin", observer.taskId, String(STOPS_AFTER), ...more);
  await observer.until(`${agent} hangs`, () => observer.message("hanging") !== undefined);
  const stoppedAt = String(observer.message("hanging")?.item);
  return { process, task: { kind, agent, observer, stoppedAt, failedAtMs: Date.now(), damaged: null } };
}

async function killAgent(
  { timeline }: FailureContext,
  { child, ended }: DemoProcess,
  task: FailedTask,
): Promise<FailedTask> {
  const failedAtMs = Date.now();
  child.kill("SIGKILL");
  timeline.print("demo", `${task.kind}: ${task.agent} ended with ${await ended} at ${task.stoppedAt}`, "bad");
  await recovered(task.observer);
  return { ...task, failedAtMs };
}

function recovered(observer: TaskObserver): Promise<void> {
  return observer.until("another agent has continued", () =>
    observer.events.some(({ type }) => type === "RECOVERY_COMPLETED"),
  );
}
