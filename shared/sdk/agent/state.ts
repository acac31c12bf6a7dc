/** The state of the work as an agent changes it: the sections of a checkpoint, plain data under their own names. */
import {
  type Checkpoint,
  type CheckpointDraft,
  type CheckpointInput,
  checkpointInputSchema,
  PHASES,
  type Phase,
} from "../../protocol/checkpoint.ts";
import { validate } from "../../protocol/validation.ts";

export type WorkState = Pick<
  CheckpointDraft,
  "execution_state" | "context_summary" | "metrics" | "recovery" | "verification" | "fleet"
>;
/** As the schema has it, without the short form that only input knows. */
export type WorkItem = {
  title: string;
  id?: string | undefined;
  notes?: string | undefined;
  at?: string | undefined;
  files_created?: string[] | undefined;
  files_modified?: string[] | undefined;
};
/** What a task that has no checkpoint yet begins with. */
export type Beginning = Partial<CheckpointInput["execution_state"]>;

/** The phase of a task that begins without one, or that was handed off by somebody who did not say in which it is. */
const FIRST_PHASE: Phase = "implementing";

export function newState(beginning: Beginning): WorkState {
  const execution_state = { phase: FIRST_PHASE, ...beginning };
  return sectionsOf(validate(checkpointInputSchema, { metadata: { agent_type: "new" }, execution_state }));
}

/** Where the agent before stopped. What is its own alone, such as the tokens in its context or its workspace, begins anew. */
export function resumedState(found: Checkpoint, nextPhase: Phase | null): WorkState {
  const state = sectionsOf(structuredClone(found));
  const { files_modified, tests_status } = state.metrics;
  const { last_successful_state: _earlier, workspace: _theirs, ...recovery } = state.recovery;
  return {
    ...state,
    execution_state: { ...state.execution_state, phase: nextPhase ?? phaseOf(found) },
    metrics: { tokens_consumed: 0, tools_invoked: 0, files_modified, ...(tests_status && { tests_status }) },
    recovery,
  };
}

/** The phase of the work; of a handoff, the one that its checkpoint says to go on in. */
function phaseOf({ execution_state: { phase, resume_pointer } }: Checkpoint): Phase {
  if (phase !== "handoff") return phase;
  return PHASES.find((one) => one === resume_pointer?.phase && one !== "handoff") ?? FIRST_PHASE;
}

function sectionsOf(checkpoint: CheckpointDraft | Checkpoint): WorkState {
  const { metadata: _metadata, compliance: _compliance, schema_version: _version, ...sections } = checkpoint;
  return sections;
}

/** Its own spelling, so that what the agent named can be found again. */
export function sameItem(one: WorkItem, other: WorkItem | string): boolean {
  if (typeof other === "string") return one.title === other || one.id === other;
  return one === other || (one.id !== undefined ? one.id === other.id : one.title === other.title);
}
