/**
 * The second act: one task goes through three agents, each a process of its own. The first one's context fills up, another of its type
 * goes on; the phase changes, and an agent of another type takes over. The first, frozen meanwhile, wakes and wants to write.
 */
import { fileURLToPath } from "node:url";
import type { FleetClient } from "../../../shared/sdk/sdk.ts";
import { isFrozen, type Running, startAgent } from "../process.ts";
import { bySize, tokensOf } from "../survey.ts";
import type { Timeline } from "../timeline.ts";
import { Witness } from "../witness.ts";
import { tellEvent, tellPrompt, tellSaid } from "./telling.ts";

const PROGRAM = "deploy/demo/handoff/agent.ts";
const root = fileURLToPath(new URL("../../..", import.meta.url));
/** Too little for one agent, enough for two: the limit as a part of all that there is to read. */
const LIMIT = 0.8;

export const TYPES: Readonly<Record<string, string>> = {
  "agent-a": "documentation",
  "agent-b": "documentation",
  "agent-c": "qa",
};

export interface Relay {
  readonly witness: Witness;
  /** How the agents' processes ended. */
  readonly ended: readonly Awaited<Running["ended"]>[];
}

export async function playHandoff(
  timeline: Timeline,
  client: FleetClient,
  env: NodeJS.ProcessEnv,
): Promise<Relay> {
  const witness = new Witness(`relay-${Date.now().toString(36)}`);
  const tokens = tokensOf((await bySize(root)).reduce((sum, { characters }) => sum + characters, 0));
  const contextLimit = Math.ceil(LIMIT * tokens);
  timeline.heading(`Task ${witness.taskId}: more than fits into one context, handed from agent to agent`);
  timeline.say(
    "demo",
    `${tokens} tokens to read (4 characters each), and a context limit of ${contextLimit} for each agent`,
  );
  await witness.watch(client, (event) => tellEvent(timeline, event));

  const start = (agent: string, ...more: string[]) =>
    startAgent(
      PROGRAM,
      [witness.taskId, agent, TYPES[agent] ?? "", String(contextLimit), ...more],
      env,
      (said) => {
        witness.said.push(said);
        tellSaid(timeline, said);
        if (said.did === "resumed" && agent === "agent-b") tellPrompt(timeline, said);
      },
    );
  const [second, third] = [start("agent-b"), start("agent-c")];
  await witness.until("both wait for an offer", () => areIdle(client, [second, third]));
  timeline.say("demo", "agent-b (documentation) and agent-c (qa) are up and wait for an offer");
  const first = start("agent-a", "begin");
  await freezeAndWake(timeline, witness, first);
  const ended = await witness.within("all agents have ended", [first.ended, second.ended, third.ended]);
  timeline.say("demo", `all three processes ended, with exit codes ${ended.join(", ")}`);
  return { witness, ended };
}

/** Frozen when it is about to write, told to write while it is frozen, and awake again when another agent has the task. */
async function freezeAndWake(timeline: Timeline, witness: Witness, { child }: Running): Promise<void> {
  await witness.until(
    "agent-a is about to write",
    () => witness.heard("about to write", "agent-a") !== undefined,
  );
  child.kill("SIGSTOP");
  await witness.until("agent-a is frozen", () => isFrozen(child));
  child.stdin?.end("write\n");
  timeline.say("demo", "agent-a is frozen (SIGSTOP), with one more write to make", "bad");
  await witness.until("agent-b has confirmed", () =>
    witness.events.some(({ type }) => type === "HANDOFF_CONFIRMED"),
  );
  timeline.say("demo", "agent-b has the task; agent-a is woken (SIGCONT)", "bad");
  child.kill("SIGCONT");
}

/** As the fleet knows them: they say that they live, and have no task. */
async function areIdle(client: FleetClient, wanted: readonly Running[]): Promise<boolean> {
  const idle = new Set<number | null>();
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await client.admin.agents({ cursor });
    for (const { state, pid } of page.agents) if (state === "idle") idle.add(pid);
    ({ cursor } = page);
  }
  return wanted.every(({ child: { pid } }) => pid !== undefined && idle.has(pid));
}
