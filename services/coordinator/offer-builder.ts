/**
 * Verifies the checkpoint of a handoff and builds the offer for the next agent, or finds the reason why there
 * is none.
 */
import pLimit from "p-limit";
import { newSalt } from "../../shared/integrity/seal.ts";
import { nextAgentType } from "../../shared/lifecycle/routing.ts";
import type { Prompt } from "../../shared/prompts/prompt.ts";
import type { Checkpoint } from "../../shared/protocol/checkpoint.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { Handoff } from "../../shared/protocol/handoff-record.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { type Policies, type Policy, policyOf } from "../../shared/protocol/policy.ts";
import { utilizationOf } from "../../shared/protocol/triggers.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Metrics } from "../../shared/runtime/observability/metrics.ts";
import type { BuiltOffer } from "./next-step.ts";
import type { PromptRenderer } from "./prompt-renderer.ts";
import { verify } from "./verification.ts";

/** The parts of an offer that the repository stores. */
export type Offerable = Omit<
  Parameters<CheckpointRepository["handoffActions"]["offerHandoff"]>[2],
  "attempt"
>;

/** Throws when the store is unavailable, or the thread of the prompts has ended. */
export type BuildOffer = (handoff: Handoff) => Promise<BuiltOffer<Offerable>>;

/**
 * In JSON a quotation mark and a backslash take two bytes; no character of JavaScript takes more than three.
 */
const BYTES_A_CHARACTER = 3;
const bytesInJson = (text: string): number => Buffer.byteLength(JSON.stringify(text));
/** Offers that are built at once: each holds one checkpoint in memory. */
const OFFERS_MAX = 32;
/** Ancestries that are read at once: each may hold many large checkpoints in memory. */
const ANCESTRIES_MAX = 4;

export function createOfferBuilder(
  repository: CheckpointRepository,
  rules: { readonly agentTypes: ReadonlySet<string>; readonly policies: Policies },
  {
    prompts,
    metrics,
  }: {
    readonly prompts: Pick<PromptRenderer, "render">;
    readonly metrics: Pick<Metrics, "handoffContextUtilization">;
  },
): BuildOffer {
  const ancestryLimit = pLimit(ANCESTRIES_MAX);
  const build: BuildOffer = async (handoff) => {
    const verified = await verify(repository, handoff, ancestryLimit);
    if (!verified.sound) {
      const { reason, details } = verified;
      return { kind: "broken", failure: { reason, details } };
    }
    const used = utilizationOf(verified.checkpoint.metrics);
    // The first offer of a handoff that its agent requested: the checkpoint has the context of that moment.
    const isFirst = handoff.attempt === 0 && handoff.recovery === null;
    if (isFirst && used !== undefined) metrics.handoffContextUtilization.observe(used);
    const toAgentType = chosenType(handoff, rules.policies);
    if (!rules.agentTypes.has(toAgentType)) {
      const details = `no agents of type ${toAgentType}; there are ${[...rules.agentTypes].join(", ")}`;
      return { kind: "unofferable", toAgentType, failure: { reason: "agent_type_unknown", details } };
    }
    const policy = policyOf(rules.policies, handoff.tenant, toAgentType);
    return offerFor(prompts, policy, { handoff, checkpoint: verified.checkpoint, toAgentType });
  };
  const limit = pLimit(OFFERS_MAX);
  return (handoff) => limit(() => build(handoff));
}

/** The type that was chosen with the request; a handoff from before that was done names none. */
function chosenType(
  { to_agent_type, from_agent_type, next_phase, tenant }: Handoff,
  policies: Policies,
): string {
  return nextAgentType({ tenant, from: from_agent_type, nextPhase: next_phase, to: to_agent_type }, policies);
}

interface Transfer {
  readonly handoff: Handoff;
  readonly checkpoint: Checkpoint;
  readonly toAgentType: string;
}

async function offerFor(
  prompts: Pick<PromptRenderer, "render">,
  { offer, first_checkpoint_ms }: Policy,
  transfer: Transfer,
): Promise<BuiltOffer<Offerable>> {
  const { checkpoint, toAgentType } = transfer;
  try {
    const prompt = await promptFor(prompts, offer, transfer);
    const { checkpoint_id: id, version } = checkpoint.metadata;
    return {
      kind: "offerable",
      offer: {
        toAgentType,
        maxAttempts: offer.max_attempts,
        checkpoint: { id, version, hash: checkpoint.compliance.hash },
        prompt: prompt.text,
        promptStyle: prompt.style,
        promptTokens: prompt.tokens,
        salt: newSalt(),
        deadlineMs: offer.deadline_ms,
        firstCheckpointMs: first_checkpoint_ms,
      },
    };
  } catch (error) {
    if (!(error instanceof FleetError) || error.code !== "INVALID") throw error;
    const problem = error.fields[0];
    const details = `${error.message}: ${problem?.path} ${problem?.expected}, and the policy gives ${problem?.got}`;
    return { kind: "unofferable", toAgentType, failure: { reason: "prompt_over_budget", details } };
  }
}

/**
 * A large budget of tokens may exceed the bytes that an offer can carry. Those are the budget then, so size
 * alone never fails.
 */
async function promptFor(
  prompts: Pick<PromptRenderer, "render">,
  { prompt_style: style, prompt_tokens: tokens }: Policy["offer"],
  { handoff, checkpoint, toAgentType }: Transfer,
): Promise<Prompt> {
  const input = { checkpoint, style, handoff: { ...handoff, to_agent_type: toAgentType } };
  const prompt = await prompts.render({ ...input, budget: { tokens } });
  if (bytesInJson(prompt.text) <= LIMITS.prompt_bytes_max) return prompt;
  const characters = Math.floor(LIMITS.prompt_bytes_max / BYTES_A_CHARACTER);
  return prompts.render({ ...input, budget: { characters } });
}
