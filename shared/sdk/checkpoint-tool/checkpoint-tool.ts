/** The checkpoint tool for models (seed 004): a program with its own agent loop gives it to its model. */
import { type CheckpointInput, PHASES, type Phase } from "../../protocol/checkpoint.ts";
import {
  CHECKPOINT_TOOL_DESCRIPTION,
  type CheckpointToolCall,
  type CheckpointToolInput,
  checkpointToolJsonSchema,
  checkpointToolSchema,
} from "../../protocol/checkpoint-tool.ts";
import { FleetError } from "../../protocol/errors.ts";
import { prefixedCheckpointId } from "../../protocol/ids.ts";
import type { RedactedPart } from "../../protocol/redaction-report.ts";
import { validate } from "../../protocol/validation.ts";
import type { FleetClient } from "../client/client.ts";
import type { CheckpointOutcome } from "../client/outcome.ts";
import { type LintFinding, lintCheckpoint } from "./lint.ts";

export interface CheckpointToolOptions {
  readonly taskId: string;
  readonly agentType: string;
  /** The fence under which the agent owns the task. */
  readonly fence?: number;
  readonly sessionId?: string;
  /** The phases of the agent's protocol, for the linter. */
  readonly phases?: readonly string[];
}

export interface CheckpointToolResult {
  readonly checkpointId: string;
  readonly agentId: string;
  readonly createdAt: string;
  readonly outcome: CheckpointOutcome["outcome"];
  /** How the next checkpoint could be better. */
  readonly advice: readonly LintFinding[];
  /** The secrets that were removed. */
  readonly redacted?: readonly RedactedPart[];
  /** The triggers that fire: the agent should hand its task off. */
  readonly handoffAdvised: readonly string[];
}

export interface CheckpointTool {
  readonly name: "checkpoint";
  readonly description: string;
  readonly inputSchema: Record<string, unknown>;
  /** A call as the model makes it. Throws INVALID for arguments of another form and for a next action that says nothing. */
  call(input: unknown): Promise<CheckpointToolResult>;
  /** Throws as {@link call} does for such arguments, and writes nothing. */
  check(input: unknown): void;
}

export function checkpointTool(fleet: FleetClient, options: CheckpointToolOptions): CheckpointTool {
  let previous: { goal: string; completed: number; at: number } | undefined;
  return {
    name: "checkpoint",
    description: CHECKPOINT_TOOL_DESCRIPTION,
    inputSchema: checkpointToolJsonSchema(),
    check(input) {
      refuse(lintCheckpoint(lintedOf(validate(checkpointToolSchema, input))).map(named));
    },
    async call(input) {
      const call = validate(checkpointToolSchema, input);
      const now = Date.now();
      const before = previous && { previous: { ...previous, agoMs: now - previous.at } };
      const { phases } = options;
      const findings = lintCheckpoint(lintedOf(call), { ...before, ...(phases && { phases }) }).map(named);
      refuse(findings);
      const task = fleet.task(options.taskId, { fence: options.fence });
      const outcome = await task.checkpoint(checkpointOf(call, options));
      previous = { goal: call.summary.goal, completed: call.summary.completed.length, at: now };
      const isCommitted = outcome.outcome === "committed";
      return {
        checkpointId: prefixedCheckpointId(outcome.checkpointId),
        agentId: fleet.agentId,
        createdAt: isCommitted ? outcome.committedAt : new Date(now).toISOString(),
        outcome: outcome.outcome,
        advice: findings,
        ...(outcome.redacted !== undefined && { redacted: outcome.redacted }),
        handoffAdvised: isCommitted ? (outcome.handoffAdvised ?? []).map(({ reason }) => reason) : [],
      };
    },
  };
}

/** The tool as a function with the signature of the seed. */
export function checkpointFunction(
  fleet: FleetClient,
  options: CheckpointToolOptions,
): (
  summary: CheckpointToolInput["summary"],
  resumePointer: CheckpointToolInput["resumePointer"],
  tokensUsed?: number,
) => Promise<CheckpointToolResult> {
  const tool = checkpointTool(fleet, options);
  return (summary, resumePointer, tokensUsed) =>
    tool.call({ summary, resumePointer, ...(tokensUsed !== undefined && { tokensUsed }) });
}

/** The names of the parts in a call of the tool. */
const NAMES: readonly (readonly [inCheckpoint: string, inCall: string])[] = [
  ["resume_pointer.next_action", "resumePointer.nextAction"],
  ["resume_pointer.phase", "resumePointer.phase"],
  ["completed_items", "summary.completed"],
  ["pending_items", "summary.pending"],
  ["key_decisions", "summary.decisions"],
  ["goal", "summary.goal"],
];

function named(finding: LintFinding): LintFinding {
  const [from, to] = NAMES.find(([name]) => finding.path.startsWith(name)) ?? ["", ""];
  return { ...finding, path: to + finding.path.slice(from.length) };
}

function lintedOf({ summary, resumePointer }: CheckpointToolCall) {
  return { ...summary, ...resumePointer, decisions: summary.decisions.map((decision) => ({ decision })) };
}

/** Throws INVALID with the reason and a good example. */
function refuse(findings: readonly LintFinding[]): void {
  const errors = findings.filter(({ severity }) => severity === "error");
  if (errors.length === 0) return;
  throw new FleetError("INVALID", "the checkpoint would not let another agent continue", {
    fields: errors.map(({ path, text, example }) => ({ path, expected: `${text}; for example: ${example}` })),
  });
}

function checkpointOf(
  { summary, resumePointer, tokensUsed, reason }: CheckpointToolCall,
  { agentType, sessionId }: CheckpointToolOptions,
): CheckpointInput {
  const { nextAction, currentContext, phase } = resumePointer;
  return {
    metadata: {
      agent_type: agentType,
      ...(sessionId !== undefined && { session_id: sessionId }),
      trigger: { reason: reason ?? "manual" },
    },
    execution_state: {
      phase: phaseOf(phase),
      goal: summary.goal,
      completed_items: summary.completed,
      pending_items: summary.pending,
      resume_pointer: {
        next_action: nextAction,
        ...(currentContext !== undefined && { current_context: currentContext }),
        ...(phase !== undefined && { phase }),
      },
    },
    context_summary: { key_decisions: summary.decisions },
    ...(tokensUsed !== undefined && { metrics: { tokens_consumed: tokensUsed } }),
  };
}

/** The phases of an agent's protocol are its own; those of Fleet that bear the same name keep it. */
function phaseOf(name: string | undefined): Phase {
  return PHASES.find((phase) => phase === name) ?? "implementing";
}
