/** One taker: it decides about an offer, accepts it, continues from the checkpoint and records its calls. */
import { setTimeout as sleep } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import type { OfferData } from "../../../../shared/protocol/offer.ts";
import type { AcknowledgeOptions } from "../../../../shared/sdk/client/options.ts";
import type { ReceivedOffer } from "../../../../shared/sdk/offers.ts";
import { isHit, type KillPlan } from "../environment/kill-points.ts";
import { type AgentContext, type Ending, failure, randomDeadline, takeStep } from "./agent.ts";
import { instant } from "./history.ts";

export interface TakerContext extends AgentContext {
  /** Another agent of the same type in this process. */
  readonly rival: AgentContext;
  readonly kills: KillPlan;
  readonly stopping: AbortSignal;
  /** Whether a command was sent more than once, so that a refusal need not apply to all of its messages. */
  readonly wasRepeated: (commandId: string) => boolean;
  readonly firstCheckpointMs: number;
}

/** The shares of the offers that are declined, accepted late or too late, and contested by two agents. */
const SHARES = { declined: 0.1, late: 0.08, contested: 0.25 } as const;
/** The share of the accepted tasks whose first checkpoint comes too late. */
const SLOW_SHARE = 0.05;
const DECLINED_MS = 500;
const LATE_MS = 3_000;
const STEPS_MAX = 3;
/** The shares of the ways in which a taker leaves a task. Otherwise it keeps the task until another agent takes it. */
const LEAVING = { release: 0.55, handOff: 0.2 } as const;

export async function takeOffer(context: TakerContext, offer: ReceivedOffer): Promise<void> {
  const { random, kills, rival } = context;
  const { data } = offer;
  const dice = random();
  if (dice < SHARES.declined) return offer.decline(random() * DECLINED_MS);
  if (dice < SHARES.declined + SHARES.late) await pause(context, random() * LATE_MS);
  if (isHit(kills)) await kills.killAt("taker before acknowledge");
  const isContested = random() < SHARES.contested;
  await Promise.all([
    acceptAndWork(context, context, data, (options) => offer.acknowledge(options)),
    isContested &&
      acceptAndWork(context, rival, data, (options) => rival.client.acknowledgeHandoff(data, options)),
  ]);
}

const pause = ({ stopping }: TakerContext, ms: number): Promise<void> =>
  sleep(ms, undefined, { signal: stopping }).catch(() => {});

/** Accepts the offer as `agent` and works on the task if it is committed. */
async function acceptAndWork(
  context: TakerContext,
  agent: AgentContext,
  offer: OfferData,
  acknowledge: (options: AcknowledgeOptions) => Promise<unknown>,
): Promise<void> {
  const ending = await accept(context, agent, offer, acknowledge);
  agent.onDone(
    "acknowledge",
    ending.code === undefined ? ending.outcome : `${ending.outcome} ${ending.code}`,
  );
  if (ending.outcome !== "committed") return;
  agent.behaviour.owns(offer.task_id, ending.committed?.fence ?? undefined);
  await work(context, agent, offer.task_id);
}

async function accept(
  { random, wasRepeated }: TakerContext,
  { client, history, nextCall, answerOf }: AgentContext,
  { task_id: task, handoff_id: handoff, attempt }: OfferData,
  acknowledge: (options: AcknowledgeOptions) => Promise<unknown>,
): Promise<Ending> {
  const call = nextCall();
  const commandId = uuidv7();
  const of = { agent: client.agentId, task, command_id: commandId, handoff, attempt };
  await history.append({ line: "call", call, at: instant(), op: "acknowledge", ...of });
  const ending = await acknowledge({ commandId, deadlineMs: randomDeadline(random) })
    .then((): Ending => {
      const committed = answerOf(commandId);
      if (committed === undefined) throw new Error("the SDK says committed and no answer did");
      return { outcome: "committed", committed };
    })
    .catch((error: unknown): Ending => {
      const refused = failure(error);
      // The refusal of a second message does not apply to the first one, which may still be in flight.
      return wasRepeated(commandId) ? { ...refused, outcome: "unknown" } : refused;
    });
  await history.append({ line: "done", call, at: instant(), ...ending });
  return ending;
}

async function work(context: TakerContext, agent: AgentContext, task: string): Promise<void> {
  const { random, kills, stopping, firstCheckpointMs } = context;
  const { behaviour } = agent;
  if (isHit(kills)) await kills.killAt("taker before its first checkpoint");
  if (random() < SLOW_SHARE) await pause(context, 1.5 * firstCheckpointMs);
  await takeStep(agent, { op: "latest", task });
  for (let left = 1 + Math.floor(random() * STEPS_MAX); left > 0 && !stopping.aborted; left -= 1) {
    await takeStep(agent, behaviour.checkpoint(task, false));
    // Another agent owns the task, and this agent accepts that.
    if (behaviour.fenceOf(task) === undefined) return;
  }
  const dice = random();
  const fence = behaviour.fenceOf(task);
  if (stopping.aborted || fence === undefined) return;
  if (dice < LEAVING.release) await takeStep(agent, { op: "release", task, fence });
  else if (dice < LEAVING.release + LEAVING.handOff) await takeStep(agent, behaviour.checkpoint(task, true));
}
