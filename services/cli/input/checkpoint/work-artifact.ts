// Reads the checkpoint of a work artifact (seed 003), as builders keep it in a file such as builder-state.json. Pure: no I/O.

import type { JsonObject } from "../document.ts";
import { objectOf, textOf } from "./checkpoint.ts";

/** The document as a checkpoint of the fleet; a document of another form is returned unchanged. */
export function fromWorkArtifact(file: JsonObject): JsonObject {
  const work = file.checkpoint;
  if (typeof work !== "object" || work === null || file.execution_state !== undefined) return file;
  const { phase, completedSteps, pendingSteps, currentStep, decisions, blockers } = objectOf(work);
  const { createdBy, lastUpdatedAt, checkpointReason, previousAgents } = objectOf(file.metadata);
  const agents = [...listOf(previousAgents), createdBy].filter((one) => typeof one === "string");
  return defined({
    metadata: defined({
      task_id: file.taskId,
      timestamp: lastUpdatedAt,
      trigger: checkpointReason === undefined ? undefined : { reason: checkpointReason },
    }),
    execution_state: defined({
      phase,
      goal: file.taskDescription,
      completed_items: listOf(completedSteps).map(itemOf),
      pending_items: listOf(pendingSteps).map(itemOf),
      blocked_items: listOf(blockers).map(itemOf),
      current_step: currentStep === undefined ? undefined : stepOf(objectOf(currentStep)),
    }),
    context_summary: { key_decisions: listOf(decisions).map(decisionOf) },
    verification: file.verification,
    recovery: agents.length === 0 ? undefined : { previous_agents: [...new Set(agents)] },
  });
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

function itemOf(one: unknown): unknown {
  if (typeof one !== "object" || one === null) return one;
  const { step, title, filesCreated, filesModified, timestamp, blocker, notes } = one as JsonObject;
  return defined({
    title: textOf(title) ?? step,
    files_created: filesCreated,
    files_modified: filesModified,
    at: timestamp,
    blocker,
    notes,
  });
}

function stepOf({ description, startedAt, partialWork }: JsonObject): JsonObject {
  return defined({ description, started_at: startedAt, partial_work: partialWork });
}

function decisionOf(one: unknown): unknown {
  if (typeof one !== "object" || one === null) return one;
  const { decision, rationale, timestamp } = one as JsonObject;
  return defined({ decision, rationale, at: timestamp });
}

const defined = (members: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
