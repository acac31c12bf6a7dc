/** One taker: decides about an offer, accepts it, continues from the checkpoint, and records what it asks and what it learns. */
import { setTimeout as sleep } from "node:timers/promises";
import { uuidv7 } from "uuidv7";
import type { OfferData } from "../../../../shared/protocol/offer.ts";
import type { AcknowledgeOptions } from "../../../../shared/sdk/client/options.ts";
import type { ReceivedOffer } from "../../../../shared/sdk/offers.ts";
import { type Deaths, die, strikes } from "../environment/kill-points.ts";
import { type AgentContext, type Ending, failure, someDeadline, takeStep } from "./agent.ts";
import { instant } from "./history.ts";

export interface TakerContext extends AgentContext {
  /** Another agent of the same type, in this process. */
  readonly rival: AgentContext;
  readonly deaths: Deaths;
  readonly stopping: AbortSignal;
  /** Whether a command was requested more than once, so that a refusal is not known to be of all of them. */
  readonly wasSentAgain: (commandId: string) => boolean;
  readonly firstCheckpointMs: number;
}

/** Of the offers, so many are declined, taken late or too late, and tried for by two agents at once. */
const SHARES = { declined: 0.1, late: 0.08, contested: 0.25 } as const;
/** Of the tasks taken, so many wait for a first checkpoint until it is too late. */
const SLOW_SHARE = 0.05;
const DECLINED_MS = 500;
const LATE_MS = 3_000;
const STEPS_MAX = 3;
/** How a taker leaves a task; else it keeps it until somebody takes it. */
const LEAVING = { release: 0.55, handOff: 0.2 } as const;

export async function takeOffer(context: TakerContext, offer: ReceivedOffer): Promise<void> {
  const { random, deaths, rival } = context;
  const { data } = offer;
  const dice = random();
  if (dice < SHARES.declined) return offer.decline(random() * DECLINED_MS);
  if (dice < SHARES.declined + SHARES.late) await pause(context, random() * LATE_MS);
  if (strikes(deaths)) await die("taker before acknowledge");
  const isContested = random() < SHARES.contested;
  await Promise.all([
    tryFor(context, context, data, (options) => offer.acknowledge(options)),
    isContested && tryFor(context, rival, data, (options) => rival.client.acknowledgeHandoff(data, options)),
  ]);
}

const pause = ({ stopping }: TakerContext, ms: number): Promise<void> =>
  sleep(ms, undefined, { signal: stopping }).catch(() => {});

/** Accepts as `agent` and, if that is granted, works on the task. */
async function tryFor(
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
  agent.mind.owns(offer.task_id, ending.committed?.fence ?? undefined);
  await work(context, agent, offer.task_id);
}

async function accept(
  { random, wasSentAgain }: TakerContext,
  { client, history, nextCall, answerOf }: AgentContext,
  { task_id: task, handoff_id: handoff, attempt }: OfferData,
  acknowledge: (options: AcknowledgeOptions) => Promise<unknown>,
): Promise<Ending> {
  const call = nextCall();
  const commandId = uuidv7();
  const of = { agent: client.agentId, task, command_id: commandId, handoff, attempt };
  await history.append({ line: "call", call, at: instant(), op: "acknowledge", ...of });
  const ending = await acknowledge({ commandId, deadlineMs: someDeadline(random) })
    .then((): Ending => {
      const committed = answerOf(commandId);
      if (committed === undefined) throw new Error("the SDK says committed and no answer did");
      return { outcome: "committed", committed };
    })
    .catch((error: unknown): Ending => {
      const refused = failure(error);
      // The refusal of the second try says nothing about the first, which may still be on its way.
      return wasSentAgain(commandId) ? { ...refused, outcome: "unknown" } : refused;
    });
  await history.append({ line: "done", call, at: instant(), ...ending });
  return ending;
}

async function work(context: TakerContext, agent: AgentContext, task: string): Promise<void> {
  const { random, deaths, stopping, firstCheckpointMs } = context;
  const { mind } = agent;
  if (strikes(deaths)) await die("taker before its first checkpoint");
  if (random() < SLOW_SHARE) await pause(context, 1.5 * firstCheckpointMs);
  await takeStep(agent, { op: "latest", task });
  for (let left = 1 + Math.floor(random() * STEPS_MAX); left > 0 && !stopping.aborted; left -= 1) {
    await takeStep(agent, mind.checkpoint(task, false));
    // Another has the task, and this one believes it.
    if (mind.fenceOf(task) === undefined) return;
  }
  const dice = random();
  const fence = mind.fenceOf(task);
  if (stopping.aborted || fence === undefined) return;
  if (dice < LEAVING.release) await takeStep(agent, { op: "release", task, fence });
  else if (dice < LEAVING.release + LEAVING.handOff) await takeStep(agent, mind.checkpoint(task, true));
}
