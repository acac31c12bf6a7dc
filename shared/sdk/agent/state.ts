/** The state of the work as an agent changes it: the sections of a checkpoint, plain data under their own names. */
import type { ArtifactReference } from "../../protocol/artifacts.ts";
import {
  type Checkpoint,
  type CheckpointDraft,
  type CheckpointInput,
  checkpointInputSchema,
  type Phase,
} from "../../protocol/checkpoint.ts";
import { withoutSignatures } from "../../protocol/esign.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { validate } from "../../protocol/validation.ts";
import { FIRST_PHASE, workPhaseOf } from "../../protocol/work-phase.ts";
import { withArtifacts } from "../artifacts/artifacts.ts";

export type WorkState = Pick<
  CheckpointDraft,
  "execution_state" | "context_summary" | "metrics" | "recovery" | "verification" | "fleet" | "artifacts"
>;
/** An item as the schema stores it, without the short form that only input may use. */
export type WorkItem = {
  title: string;
  id?: string | undefined;
  notes?: string | undefined;
  at?: string | undefined;
  files_created?: string[] | undefined;
  files_modified?: string[] | undefined;
};
/** The state of a task without checkpoints. */
export type InitialWork = Partial<CheckpointInput["execution_state"]>;

export function newState(initial: InitialWork): WorkState {
  const execution_state = { phase: FIRST_PHASE, ...initial };
  return sectionsOf(validate(checkpointInputSchema, { metadata: { agent_type: "new" }, execution_state }));
}

/** The state in a checkpoint, without the facts of the former agent alone, such as its tokens and its workspace. */
export function resumedState(found: Checkpoint, nextPhase: Phase | null): WorkState {
  // The signatures are of the old checkpoint. Each patch of the next one would name them, and is refused.
  const state = sectionsOf(structuredClone(withoutSignatures(found)));
  const { files_modified, tests_status } = state.metrics;
  const { agent_id, checkpoint_id } = found.metadata;
  const { previous_agents: before = [], ...recovery } = withoutFacts(state.recovery);
  return {
    ...state,
    execution_state: { ...state.execution_state, phase: nextPhase ?? workPhaseOf(found) },
    metrics: { tokens_consumed: 0, tools_invoked: 0, files_modified, ...(tests_status && { tests_status }) },
    recovery: {
      ...recovery,
      resumed_from: { agent_id, checkpoint_id },
      previous_agents: [...before.filter((id) => id !== agent_id), agent_id].slice(-LIMITS.parent_count_max),
    },
  };
}

/** Without the members that belong to one checkpoint or one agent. */
function withoutFacts({
  last_successful_state: _earlier,
  workspace: _former,
  continuation_prompt: prompt,
  continuation_prompt_source: source,
  ...rest
}: Checkpoint["recovery"]): Checkpoint["recovery"] {
  return { ...rest, ...(source === undefined && prompt !== undefined && { continuation_prompt: prompt }) };
}

function sectionsOf(checkpoint: CheckpointDraft | Checkpoint): WorkState {
  const { metadata: _metadata, compliance: _compliance, schema_version: _version, ...sections } = checkpoint;
  return sections;
}

/** Adds the artifact to the state when it is stored. */
export async function attachArtifact(
  state: WorkState,
  stored: Promise<ArtifactReference>,
): Promise<ArtifactReference> {
  const reference = await stored;
  state.artifacts = withArtifacts(state.artifacts ?? [], [reference]);
  return reference;
}

/** Compares by identity, id or title, so that an item is found by the name that the agent gave it. */
export function sameItem(one: WorkItem, other: WorkItem | string): boolean {
  if (typeof other === "string") return one.title === other || one.id === other;
  return one === other || (one.id !== undefined ? one.id === other.id : one.title === other.title);
}
