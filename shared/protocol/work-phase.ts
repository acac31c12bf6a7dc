/** The phase in which the work of a checkpoint continues. */
import { type Checkpoint, PHASES, type Phase } from "./checkpoint.ts";

/** The phase of a task that begins without one, and of a handoff that names none. */
export const FIRST_PHASE: Phase = "implementing";

/** The phase of the work. For a handoff, the phase in which its checkpoint continues. */
export function workPhaseOf({
  execution_state: { phase, resume_pointer },
}: Pick<Checkpoint, "execution_state">): Phase {
  if (phase !== "handoff") return phase;
  return PHASES.find((one) => one === resume_pointer?.phase && one !== "handoff") ?? FIRST_PHASE;
}
