/**
 * The second part: one task and three agents, each a process of its own. The context of the first agent fills up, and another of its type
 * continues; then the phase changes, and an agent of another type takes over. The first agent, frozen in the meantime, wakes and writes.
 */
import { fileURLToPath } from "node:url";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { surveysBySize, tokensOf } from "../folder-survey.ts";
import { type DemoProcess, isFrozen, startAgent } from "../process.ts";
import { TaskObserver } from "../task-observer.ts";
import type { Timeline } from "../timeline.ts";
import { printHandoffEvent, printHandoffMessage, printPrompt } from "./transcript.ts";

const PROGRAM = "deploy/demo/handoff/agent.ts";
const root = fileURLToPath(new URL("../../..", import.meta.url));
/** The context limit as a share of the whole text: too little for one agent, enough for two. */
const CONTEXT_SHARE = 1;

export const AGENT_TYPES: Readonly<Record<string, string>> = {
  "agent-a": "documentation",
  "agent-b": "documentation",
  "agent-c": "qa",
};

export interface HandoffScenario {
  readonly observer: TaskObserver;
  /** The exits of the agents' processes. */
  readonly exits: readonly Awaited<DemoProcess["ended"]>[];
}

export async function runHandoff(
  timeline: Timeline,
  client: FleetClient,
  env: NodeJS.ProcessEnv,
): Promise<HandoffScenario> {
  const observer = new TaskObserver(`relay-${Date.now().toString(36)}`);
  const surveys = await surveysBySize(root);
  const tokens = tokensOf(surveys.reduce((sum, { characters }) => sum + characters, 0));
  const contextLimit = Math.ceil(CONTEXT_SHARE * tokens);
  timeline.heading(`Part 2: a task larger than one context is handed over (task ${observer.taskId})`);
  timeline.print(
    "demo",
    `${tokens} tokens to read, with a context limit of ${contextLimit} tokens per agent`,
  );
  await observer.observe(client, (event) => printHandoffEvent(timeline, event));

  const start = (agent: string, ...more: string[]) =>
    startAgent(
      PROGRAM,
      [observer.taskId, agent, AGENT_TYPES[agent] ?? "", String(contextLimit), ...more],
      env,
      (message) => {
        observer.messages.push(message);
        printHandoffMessage(timeline, message);
        if (message.did === "resumed" && agent === "agent-b") printPrompt(timeline, message);
      },
    );
  const [second, third] = [start("agent-b"), start("agent-c")];
  await observer.until("both agents wait for an offer", () => areIdle(client, [second, third]));
  timeline.print("demo", "agent-b (documentation) and agent-c (qa) wait for an offer");
  const first = start("agent-a", "begin");
  await freezeAndWake(timeline, observer, first);
  const exits = await observer.all("all agents have ended", [first.ended, second.ended, third.ended]);
  timeline.print("demo", `all three processes ended, with exit codes ${exits.join(", ")}`);
  return { observer, exits };
}

/** Freezes the agent when it is about to write, sends it its line, and wakes it when another agent owns the task. */
async function freezeAndWake(
  timeline: Timeline,
  observer: TaskObserver,
  { child }: DemoProcess,
): Promise<void> {
  await observer.until(
    "agent-a is about to write",
    () => observer.message("about to write", "agent-a") !== undefined,
  );
  child.kill("SIGSTOP");
  await observer.until("agent-a is frozen", () => isFrozen(child));
  child.stdin?.end("write\n");
  timeline.print("demo", "agent-a is frozen (SIGSTOP) just before another write", "bad");
  await observer.until("agent-b has confirmed", () =>
    observer.events.some(({ type }) => type === "HANDOFF_CONFIRMED"),
  );
  timeline.print("demo", "agent-b owns the task; agent-a is woken (SIGCONT)", "bad");
  child.kill("SIGCONT");
}

/** True if the fleet lists all these processes as idle agents, by their heartbeats. */
async function areIdle(client: FleetClient, wanted: readonly DemoProcess[]): Promise<boolean> {
  const idle = new Set<number | null>();
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await client.admin.agents({ cursor });
    for (const { state, pid } of page.agents) if (state === "idle") idle.add(pid);
    ({ cursor } = page);
  }
  return wanted.every(({ child: { pid } }) => pid !== undefined && idle.has(pid));
}
