/** What a look at a handoff's checkpoint comes to: an offer that can be made, or the reason why none can. */
import pLimit from "p-limit";
import { continuationPrompt } from "../../shared/prompts/continuation.ts";
import type { Prompt } from "../../shared/prompts/prompt.ts";
import type { Checkpoint } from "../../shared/protocol/checkpoint.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import type { Handoff } from "../../shared/protocol/handoff-record.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { nextAgentType, type Policies, type Policy, policyOf } from "../../shared/protocol/policy.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { Examination } from "./next-step.ts";
import { verify } from "./verification.ts";

/** An offer as the repository takes it, for agents of a type. */
export type Offerable = Omit<Parameters<CheckpointRepository["coordination"]["offerHandoff"]>[2], "attempt">;

export type Examine = (handoff: Handoff) => Promise<Examination<Offerable>>;

/** As it stands in JSON, where a quotation mark and a backslash are two: a character of JavaScript comes to at most so many bytes. */
const BYTES_A_CHARACTER = 3;
const bytesInJson = (text: string): number => Buffer.byteLength(JSON.stringify(text));
/** Each holds one checkpoint. */
const AT_ONCE = 32;
/** What a checkpoint goes back to is read many at a time, which may be large: so few at once that it does not fill the memory. */
const ANCESTRIES_AT_ONCE = 4;

export function createExamination(
  repository: CheckpointRepository,
  rules: { readonly agentTypes: ReadonlySet<string>; readonly policies: Policies },
): Examine {
  const ancestryLimit = pLimit(ANCESTRIES_AT_ONCE);
  const examine: Examine = async (handoff) => {
    const verified = await verify(repository, handoff, ancestryLimit);
    if (!verified.sound) {
      const { reason, details } = verified;
      return { kind: "broken", failure: { reason, details } };
    }
    const toAgentType = chosen(handoff, rules.policies);
    if (!rules.agentTypes.has(toAgentType)) {
      const details = `no agents of type ${toAgentType}; there are ${[...rules.agentTypes].join(", ")}`;
      return { kind: "unofferable", toAgentType, failure: { reason: "agent_type_unknown", details } };
    }
    const policy = policyOf(rules.policies, handoff.tenant, toAgentType);
    return offered(handoff, verified.checkpoint, toAgentType, policy);
  };
  const limit = pLimit(AT_ONCE);
  return (handoff) => limit(() => examine(handoff));
}

/** Who asked for a type gets it; else the policy of the type that worked so far says who goes on. */
function chosen({ to_agent_type, from_agent_type, next_phase, tenant }: Handoff, policies: Policies): string {
  return (
    to_agent_type ?? nextAgentType(policyOf(policies, tenant, from_agent_type), from_agent_type, next_phase)
  );
}

function offered(
  handoff: Handoff,
  checkpoint: Checkpoint,
  toAgentType: string,
  { offer, first_checkpoint_ms }: Policy,
): Examination<Offerable> {
  try {
    const prompt = promptFor(handoff, checkpoint, toAgentType, offer);
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

/** A generous budget of tokens may come to more bytes than an offer can carry; then these are the budget. Never fails for its size alone. */
function promptFor(
  handoff: Handoff,
  checkpoint: Checkpoint,
  toAgentType: string,
  { prompt_style: style, prompt_tokens: tokens }: Policy["offer"],
): Prompt {
  const input = { checkpoint, style, handoff: { ...handoff, to_agent_type: toAgentType } };
  const prompt = continuationPrompt({ ...input, budget: { tokens } });
  if (bytesInJson(prompt.text) <= LIMITS.prompt_bytes_max) return prompt;
  const characters = Math.floor(LIMITS.prompt_bytes_max / BYTES_A_CHARACTER);
  return continuationPrompt({ ...input, budget: { characters } });
}
