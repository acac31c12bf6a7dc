/**
 * The third act: three tasks at once, and each of them loses its agent. One is killed, one hangs, and of the third the newest checkpoint is
 * damaged on disk as well. Nobody tells the fleet; it notices, and has the tasks go on with agents that wait for an offer.
 */
import type { DemoFleet } from "../fleet.ts";
import { type Running, startAgent } from "../process.ts";
import type { Timeline } from "../timeline.ts";
import { Witness } from "../witness.ts";
import { AGENT_TYPE, CAST, type Kind, type Story } from "./cast.ts";
import { damage, falsified } from "./damage.ts";
import { tellEvent, tellSaid } from "./telling.ts";

const PROGRAM = "deploy/demo/recovery/agent.ts";
/** After so many items the first agents stand still. */
const STOPS_AFTER = 4;
/** The hanging agent says that its step takes no longer. */
const STEP_MS = 500;

export interface Rescue {
  readonly stories: readonly Story[];
  /** How those processes ended that nobody killed. */
  readonly ended: readonly Awaited<Running["ended"]>[];
}

export async function playRecovery(timeline: Timeline, fleet: DemoFleet): Promise<Rescue> {
  const { client, env, storeFile } = fleet;
  const kinds = (Object.keys(CAST) as Kind[]).filter((kind) => kind !== "disk" || storeFile !== null);
  const suffix = Date.now().toString(36);
  const witnesses = kinds.map((kind) => new Witness(`${kind}-${suffix}`));
  const tasks = witnesses.map(({ taskId }) => taskId);
  tellRules(timeline, fleet, tasks);
  await Promise.all(witnesses.map((one) => one.watch(client, (event) => tellEvent(timeline, event))));

  const start = (agent: string, ...args: string[]): Running =>
    startAgent(PROGRAM, [agent, ...args], env, (said) => {
      witnesses.find(({ taskId }) => taskId === said.task)?.said.push(said);
      tellSaid(timeline, said);
    });
  const stage = { timeline, storeFile, start };
  const failed = witnesses.map((witness, i) => FAILURES[kinds[i] as Kind](stage, witness));
  timeline.say("demo", `${kinds.length} agents begin, and ${kinds.length} spare ones wait for an offer`);
  const spares = kinds.map((_, i) => start(`spare-${i + 1}`, "wait", ...tasks));
  const [any] = witnesses as [Witness];
  const acted = await any.within("the tasks have gone on", failed);
  const survivors = [...acted.flatMap(({ survivor }) => survivor ?? []), ...spares];
  const ended = await any.within(
    "all agents have ended",
    survivors.map((one) => one.ended),
  );
  timeline.say("demo", `all who were left ended, with exit codes ${ended.join(", ")}`);
  return { stories: acted.map(({ story }) => story), ended };
}

function tellRules(timeline: Timeline, { silenceMs, storeFile }: DemoFleet, tasks: readonly string[]): void {
  timeline.heading(`Tasks ${tasks.join(", ")}: their agents fail, and nobody says so`);
  const limit = silenceMs === null ? "as long as the fleet's policy says" : `${silenceMs / 1_000} s`;
  timeline.say("demo", `whoever gives no sign of life for ${limit} is taken for dead`);
  if (storeFile === null)
    timeline.say("demo", "no checkpoint is damaged: the store is not the demo's", "note");
}

interface Stage {
  readonly timeline: Timeline;
  readonly storeFile: string | null;
  readonly start: (agent: string, ...args: string[]) => Running;
}

interface Acted {
  readonly story: Story;
  /** The agent that failed, if it ends by itself. */
  readonly survivor?: Running;
}

const FAILURES: Readonly<Record<Kind, (stage: Stage, witness: Witness) => Promise<Acted>>> = {
  async crash(stage, witness) {
    const { running, story } = await standstill(stage, witness, "crash");
    return { story: await killed(stage, running, story) };
  },

  async hang(stage, witness) {
    const { running, story } = await standstill(stage, witness, "hang", String(STEP_MS));
    await recovered(witness);
    stage.timeline.say("demo", `hang: ${story.agent} comes back from its step`, "bad");
    running.child.stdin?.end("go on\n");
    return { story, survivor: running };
  },

  async disk(stage, witness) {
    const { running, story } = await standstill(stage, witness, "disk");
    const newest = witness.said.findLast(({ did }) => did === "done");
    const damaged = { checkpointId: String(newest?.checkpoint), text: String(newest?.notes) };
    const copies = await damage(stage.storeFile ?? "", { ...damaged, agentType: AGENT_TYPE });
    const says = `"${damaged.text.slice(0, 9)}…" says "${falsified(damaged.text).slice(0, 9)}…" now`;
    stage.timeline.say(
      "demo",
      `disk: one bit of ${damaged.checkpointId} is turned over on disk (copies: ${copies}): ${says}`,
      "bad",
    );
    return { story: await killed(stage, running, { ...story, damaged }) };
  },
};

/** An agent begins the task, and stops at one of its items. */
async function standstill(
  { start }: Stage,
  witness: Witness,
  kind: Kind,
  ...more: string[]
): Promise<{ running: Running; story: Story }> {
  const agent = CAST[kind];
  const running = start(agent, "begin", witness.taskId, String(STOPS_AFTER), ...more);
  await witness.until(`${agent} stands still`, () => witness.heard("stands still") !== undefined);
  const stoppedAt = String(witness.heard("stands still")?.item);
  return { running, story: { kind, agent, witness, stoppedAt, failedAtMs: Date.now(), damaged: null } };
}

async function killed({ timeline }: Stage, { child, ended }: Running, story: Story): Promise<Story> {
  const failedAtMs = Date.now();
  child.kill("SIGKILL");
  timeline.say("demo", `${story.kind}: ${story.agent} ended: ${await ended}, at ${story.stoppedAt}`, "bad");
  await recovered(story.witness);
  return { ...story, failedAtMs };
}

function recovered(witness: Witness): Promise<void> {
  return witness.until("another agent has gone on", () =>
    witness.events.some(({ type }) => type === "RECOVERY_COMPLETED"),
  );
}
