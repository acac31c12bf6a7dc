// The parts of a checkpoint document that the linter judges. A part of another form is left to the writer's refusal. Pure: no I/O.

import type { LintedCheckpoint } from "../../../../shared/sdk/checkpoint-tool/lint.ts";
import type { JsonObject } from "../document.ts";
import { objectOf, textOf } from "./checkpoint.ts";

export function lintedDocument(checkpoint: JsonObject): LintedCheckpoint {
  const state = objectOf(checkpoint.execution_state);
  const pointer = objectOf(state.resume_pointer);
  return {
    goal: textOf(state.goal),
    completed: titlesOf(state.completed_items),
    pending: titlesOf(state.pending_items),
    decisions: listOf(objectOf(checkpoint.context_summary).key_decisions).map((one) => {
      const { decision, rationale } = objectOf(one);
      return { decision: textOf(one) ?? textOf(decision) ?? "", rationale: textOf(rationale) };
    }),
    nextAction: textOf(pointer.next_action),
    currentContext: textOf(pointer.current_context),
    phase: textOf(pointer.phase),
  };
}

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);

const titlesOf = (items: unknown): string[] =>
  listOf(items).flatMap((item) => textOf(item) ?? textOf(objectOf(item).title) ?? []);
