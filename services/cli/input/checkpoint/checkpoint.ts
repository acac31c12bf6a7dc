// Makes a checkpoint document from options and a file. Options win over the file. Pure: no I/O.

import type { JsonObject } from "../document.ts";
import type { Labels } from "./label.ts";

export interface CheckpointFlags {
  readonly task?: string;
  readonly type?: string;
  readonly phase?: string;
  readonly goal?: string;
  readonly completed?: readonly string[];
  readonly pending?: readonly string[];
  readonly blocked?: readonly string[];
  readonly decision?: readonly string[];
  readonly next?: string;
  readonly note?: string;
  readonly reason?: string;
  readonly label?: Labels;
  readonly progress?: number;
  readonly tokens?: number;
  readonly contextUsed?: number;
  readonly contextLimit?: number;
  readonly session?: string;
  readonly iteration?: number;
  readonly parent?: readonly string[];
  readonly retention?: string;
}

export interface CheckpointDocument {
  readonly taskId: string | undefined;
  readonly checkpoint: JsonObject;
}

/** Lists in options replace those of the file. Labels and sections are merged. */
export function checkpointDocument(flags: CheckpointFlags, file: JsonObject = {}): CheckpointDocument {
  const metadata = section(file, "metadata", {
    agent_type: flags.type,
    session_id: flags.session,
    iteration: flags.iteration,
    parent_ids: flags.parent,
    labels: flags.label && { ...objectOf(objectOf(file.metadata).labels), ...flags.label },
    trigger: triggerOf(flags, file),
  });
  const state = section(file, "execution_state", {
    phase: flags.phase,
    goal: flags.goal,
    completed_items: flags.completed,
    pending_items: flags.pending,
    blocked_items: flags.blocked?.map((text) => withReason(text, "title", "blocker")),
    progress_percent: flags.progress,
    resume_pointer:
      flags.next === undefined
        ? undefined
        : { ...objectOf(objectOf(file.execution_state).resume_pointer), next_action: flags.next },
  });
  const decisions = flags.decision?.map((text) => withReason(text, "decision", "rationale"));
  const context = section(file, "context_summary", { key_decisions: decisions });
  const metrics = section(file, "metrics", {
    tokens_consumed: flags.tokens,
    context_tokens: flags.contextUsed,
    context_limit: flags.contextLimit,
  });
  const compliance = section(file, "compliance", { retention_policy: flags.retention });
  return {
    taskId: flags.task ?? textOf(metadata.task_id),
    checkpoint: {
      ...file,
      // The task is part of the command's address, so the option replaces the task of the file.
      metadata: { ...metadata, ...(flags.task !== undefined && { task_id: flags.task }) },
      execution_state: state,
      ...(Object.keys(context).length > 0 && { context_summary: context }),
      ...(Object.keys(metrics).length > 0 && { metrics }),
      ...(Object.keys(compliance).length > 0 && { compliance }),
    },
  };
}

/** The required options that neither the call nor the file gives. */
export function missingOptions({ taskId, checkpoint }: CheckpointDocument): ("task" | "type" | "phase")[] {
  const { agent_type } = objectOf(checkpoint.metadata);
  const { phase } = objectOf(checkpoint.execution_state);
  return [
    ...(taskId === undefined ? (["task"] as const) : []),
    ...(agent_type === undefined ? (["type"] as const) : []),
    ...(phase === undefined ? (["phase"] as const) : []),
  ];
}

function triggerOf({ note, reason }: CheckpointFlags, file: JsonObject): JsonObject | undefined {
  if (note === undefined && reason === undefined) return undefined;
  const given = objectOf(objectOf(file.metadata).trigger);
  return { reason: reason ?? given.reason ?? "manual", ...(note !== undefined && { details: note }) };
}

/** Splits "Deploy because the key is missing" into its subject and its reason. */
function withReason(text: string, subject: string, reason: string): string | JsonObject {
  const at = text.indexOf(" because ");
  return at < 1 ? text : { [subject]: text.slice(0, at), [reason]: text.slice(at + " because ".length) };
}

function section(file: JsonObject, name: string, given: JsonObject): JsonObject {
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  const before = file[name];
  // A section of the wrong type stays as it is: the writer's refusal names the field and the expected type.
  if (set.length === 0 && before !== undefined) return before as JsonObject;
  return { ...objectOf(before), ...Object.fromEntries(set) };
}

export function objectOf(value: unknown): JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

export function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
