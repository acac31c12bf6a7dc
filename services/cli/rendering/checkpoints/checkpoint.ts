// One checkpoint with all its sections, for operators.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import { promisedDays } from "../../../../shared/protocol/retention.ts";
import { utilizationOf } from "../../../../shared/protocol/triggers.ts";
import { splitSignatures } from "../../../../shared/sdk/esign/display.ts";
import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import { signatureBlockLines } from "../esign/signatures.ts";
import { signatureText } from "../keys/signing-keys.ts";
import { bulletList, field } from "../terminal/fields.ts";
import { count, moneyText, percentText, plain, principalText, shownId } from "../terminal/text.ts";
import { exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { renderMission } from "./mission.ts";

export function renderCheckpoint(
  checkpoint: Checkpoint,
  view: View,
  signatures: readonly EsignBlock[] = [],
): string {
  return [
    ...heading(checkpoint, view),
    ...work(checkpoint, view),
    ...thinking(checkpoint, view),
    ...measures(checkpoint, view),
    ...recovery(checkpoint, view),
    ...(checkpoint.fleet === undefined ? [] : renderMission(checkpoint.fleet, view)),
    ...(checkpoint.verification === undefined ? [] : verification(checkpoint.verification, view)),
    "",
    field("Retention", classText(checkpoint), view),
    field("Audit", plain(checkpoint.compliance.event_log_ref), view),
    field("Hash", checkpoint.compliance.hash, view),
    field("Signature", signatureText(checkpoint.compliance.signature, view), view),
    ...signatureBlockLines(splitSignatures(checkpoint, signatures), view),
  ].join("\n");
}

const DAY_MS = 86_400_000;

/** "short; floor regulated, kept until 2033-11-27 at least": a checkpoint stays until the longer of the two ends. */
function classText({ metadata, compliance }: Checkpoint): string {
  const { retention_policy: policy, retention_floor: floor, retain_until: until } = compliance;
  const days = Math.max(promisedDays(policy), floor === undefined ? 0 : promisedDays(floor));
  const end = until ?? endOf(metadata.committed_at, days);
  const kept =
    days === 0 ? "" : end === null ? ", kept for good" : `, kept until ${end.slice(0, 10)} at least`;
  return `${policy}${floor === undefined ? "" : `; floor ${floor}`}${kept}`;
}

/** null: there is no end. */
function endOf(committedAt: string, days: number): string | null {
  return days === Infinity ? null : new Date(Date.parse(committedAt) + days * DAY_MS).toISOString();
}

function heading({ metadata: m, execution_state: state }: Checkpoint, view: View): string[] {
  const { colors, now } = view;
  const details = m.trigger.details === undefined ? "" : ` (${plain(m.trigger.details)})`;
  const status = m.final_status === undefined ? m.status : `${m.status} (${m.final_status})`;
  return [
    field("Checkpoint", colors.bold(shownId(m.checkpoint_id)), view),
    field("Task", plain(m.task_id), view),
    field("Agent", `${principalText(m.agent_id)} (${plain(m.agent_type)})`, view),
    ...(m.session_id === undefined ? [] : [field("Session", plain(m.session_id), view)]),
    field("Created", exactly(m.timestamp, now), view),
    ...(m.committed_at === m.timestamp ? [] : [field("Committed", exactly(m.committed_at, now), view)]),
    field("Trigger", `${m.trigger.reason}${details}`, view),
    field(
      "Status",
      `${status}, version ${m.version}, checkpoint ${m.seq} of the task, iteration ${m.iteration}`,
      view,
    ),
    field("Parents", m.parent_ids.length === 0 ? "none" : m.parent_ids.map(shownId).join(", "), view),
    ...(m.forked_from === undefined
      ? []
      : [
          field(
            "Forked from",
            `${shownId(m.forked_from.checkpoint_id)} of task ${plain(m.forked_from.task_id)}`,
            view,
          ),
        ]),
    ...(m.labels === undefined
      ? []
      : [
          field(
            "Labels",
            Object.entries(m.labels)
              .map(([k, v]) => plain(`${k}=${v}`))
              .join(", "),
            view,
          ),
        ]),
    field("Phase", state.phase, view),
    ...(state.progress_percent === undefined
      ? []
      : [field("Progress", percentText(state.progress_percent), view)]),
    ...(state.goal === undefined ? [] : [field("Goal", plain(state.goal), view)]),
  ];
}

interface Item {
  readonly title: string;
  readonly files_created?: readonly string[] | undefined;
  readonly files_modified?: readonly string[] | undefined;
  readonly notes?: string | undefined;
  readonly blocker?: unknown;
}

function work({ execution_state: state }: Checkpoint, view: View): string[] {
  const { current_step: step, resume_pointer: pointer } = state;
  return [
    ...bulletList("Completed", state.completed_items.map(itemText), view),
    ...bulletList("Pending", state.pending_items.map(itemText), view),
    ...bulletList("Blocked", state.blocked_items.map(itemText), view),
    ...(state.current_focus === undefined ? [] : ["", field("Focus", plain(state.current_focus), view)]),
    ...(step === undefined ? [] : ["", field("Current step", plain(step.description), view)]),
    ...(step?.partial_work === undefined ? [] : indented(step.partial_work)),
    ...(pointer === undefined ? [] : ["", field("Next action", plain(pointer.next_action), view)]),
    ...(pointer?.current_context === undefined ? [] : indented(pointer.current_context)),
  ];
}

function itemText(item: Item): string {
  const files = [...(item.files_created ?? []), ...(item.files_modified ?? [])];
  return [
    plain(item.title),
    ...(typeof item.blocker === "string" ? [`blocked by: ${plain(item.blocker)}`] : []),
    ...(item.notes === undefined ? [] : [plain(item.notes)]),
    ...(files.length === 0 ? [] : [`[${files.map((file) => plain(file)).join(", ")}]`]),
  ].join("  ");
}

function thinking({ context_summary: context }: Checkpoint, view: View): string[] {
  const decisions = context.key_decisions.map((one: { decision: string; rationale?: string | undefined }) =>
    one.rationale === undefined ? plain(one.decision) : `${plain(one.decision)} (${plain(one.rationale)})`,
  );
  return [
    ...bulletList("Decisions", decisions, view),
    ...bulletList(
      "Assumptions",
      context.assumptions.map((text) => plain(text)),
      view,
    ),
    ...bulletList(
      "Constraints",
      context.constraints.map((text) => plain(text)),
      view,
    ),
    ...bulletList(
      "External dependencies",
      context.external_dependencies.map((text) => plain(text)),
      view,
    ),
  ];
}

/** "51,200 (40,000 input, 3,200 output, 8,000 cached)". */
function tokensText({ tokens_consumed, ...metrics }: Checkpoint["metrics"]): string {
  const parts = (["input", "output", "cached"] as const).flatMap((kind) => {
    const tokens = metrics[`${kind}_tokens`];
    return tokens === undefined ? [] : [`${count(tokens)} ${kind}`];
  });
  return count(tokens_consumed) + (parts.length === 0 ? "" : ` (${parts.join(", ")})`);
}

/** "50,000 of 200,000 tokens, 25%"; null: not reported. */
function contextText(metrics: Checkpoint["metrics"]): string | null {
  const { context_tokens: tokens, context_limit: limit } = metrics;
  const used = utilizationOf(metrics);
  const size = limit === undefined ? "" : ` of ${count(limit)}`;
  const parts = [
    ...(tokens === undefined ? [] : [`${count(tokens)}${size} tokens`]),
    ...(used === undefined ? [] : [`${Math.round(used * 100)}%`]),
  ];
  return parts.length === 0 ? null : parts.join(", ");
}

function measures({ metrics }: Checkpoint, view: View): string[] {
  const { tests_status: tests, tokens_consumed: tokens, cost = {}, model } = metrics;
  const context = contextText(metrics);
  return [
    ...(tokens === 0 && context === null ? [] : [""]),
    ...(tokens === 0 ? [] : [field("Tokens", tokensText(metrics), view)]),
    ...(context === null ? [] : [field("Context", context, view)]),
    ...(model === undefined ? [] : [field("Model", plain(model), view)]),
    ...(cost.amount === undefined ? [] : [field("Cost", moneyText(cost.amount, cost.currency), view)]),
    ...(tests === undefined
      ? []
      : [
          "",
          field("Tests", `${tests.passed} passed, ${tests.failed} failed, ${tests.skipped} skipped`, view),
        ]),
    ...bulletList(
      "Files modified",
      metrics.files_modified.map((file) => plain(file)),
      view,
    ),
  ];
}

function recovery({ recovery: r }: Checkpoint, view: View): string[] {
  return [
    ...(r.last_successful_state === undefined
      ? []
      : ["", field("Falls back to", shownId(r.last_successful_state), view)]),
    ...(r.rollback_instructions === undefined
      ? []
      : ["", field("Rollback", "", view).trimEnd(), ...indented(r.rollback_instructions)]),
    ...(r.continuation_prompt === undefined
      ? []
      : ["", field("Continuation prompt", "", view).trimEnd(), ...indented(r.continuation_prompt)]),
  ];
}

function verification(
  { criteria, results }: { criteria: readonly unknown[]; results: readonly unknown[] },
  view: View,
): string[] {
  const text = (value: unknown) => plain(typeof value === "string" ? value : JSON.stringify(value));
  return [
    ...bulletList("Criteria", criteria.map(text), view),
    ...bulletList("Results", results.map(text), view),
  ];
}

function indented(text: string): string[] {
  return plain(text, { lines: true })
    .split("\n")
    .map((line) => `  ${line}`.trimEnd());
}
