/** The first part: an agent is killed at work, and another process continues. */
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { type AgentMessage, startAgent } from "../process.ts";
import { TaskObserver } from "../task-observer.ts";
import type { Timeline } from "../timeline.ts";

const PROGRAM = "deploy/demo/kill/agent.ts";
const KILL_AFTER = 4;

export interface KillScenario {
  readonly observer: TaskObserver;
  /** The item that the first agent was working on when it was killed. */
  readonly killedAt: string | null;
}

export async function runKill(
  timeline: Timeline,
  client: FleetClient,
  env: NodeJS.ProcessEnv,
): Promise<KillScenario> {
  const observer = new TaskObserver(`survey-${Date.now().toString(36)}`);
  const { taskId } = observer;
  let killedAt: string | null = null;
  await observer.observe(client);

  timeline.heading(`Part 1: an agent is killed, and another one continues (task ${taskId})`);
  const onMessage = (message: AgentMessage) => {
    observer.messages.push(message);
    printMessage(timeline, message);
  };
  const first = startAgent(PROGRAM, [taskId, "surveyor-a"], env, (message) => {
    onMessage(message);
    if (
      message.did === "working" &&
      observer.messages.filter(({ did }) => did === "checkpoint").length === KILL_AFTER
    ) {
      killedAt = String(message.item);
      first.child.kill("SIGKILL");
    }
  });
  timeline.print("demo", `surveyor-a ended with ${await first.ended} while working on ${killedAt}`, "bad");
  const second = startAgent(PROGRAM, [taskId, "surveyor-b"], env, onMessage);
  const exit = await second.ended;
  timeline.print("demo", `surveyor-b ended with exit code ${exit}`, exit === 0 ? "good" : "bad");
  return { observer, killedAt };
}

function printMessage(timeline: Timeline, message: AgentMessage): void {
  const { agent, did } = message;
  switch (did) {
    case "began":
      timeline.print(agent, `begins: ${message.folders} folders to survey`);
      break;
    case "resumed":
      timeline.print(
        agent,
        `continues from ${message.from} by ${message.by}: ${message.done} done, next ${message.next}`,
        "note",
      );
      break;
    case "checkpoint":
      timeline.print(agent, `checkpoint ${message.id}, ${message.done} done`, "good", message.ms as number);
      break;
    case "finished":
      timeline.print(agent, `finished and finalized ${message.id}`, "good");
      break;
    default:
      timeline.print(agent, `works on ${message.item}`);
  }
}
