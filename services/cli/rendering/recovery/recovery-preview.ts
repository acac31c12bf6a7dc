// The effect of a recovery, for `fleet recovery start --dry-run`: its checkpoint, its next agent, the owner that would lose the
// task, and whether the recovery would be refused.

import type { CorruptCheckpoint } from "../../../../shared/protocol/checkpoint-pages.ts";
import type { ErrorCode } from "../../../../shared/protocol/errors.ts";
import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import type { RecoveryPreview } from "../../../../shared/protocol/recovery-queries.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import type { Presence } from "../../commands/recovery/agent-presence.ts";
import { signedFields } from "../esign/signatures.ts";
import { field, optionalField } from "../terminal/fields.ts";
import { counted, plain, principalText, shownId } from "../terminal/text.ts";
import { exactly, span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { presenceText } from "./presence.ts";

export interface RecoveryDryRun {
  readonly dry_run: true;
  readonly task_id: string;
  readonly state: Task["state"];
  /** The recovery point; null: there is none. */
  readonly from: {
    readonly checkpoint_id: string;
    readonly seq: number;
    readonly phase: string;
    readonly agent_id: string;
    readonly agent_type: string;
    readonly committed_at: string;
  } | null;
  /** The offer that would be made; null: there is no recovery point. */
  readonly offer: RecoveryPreview["offer"];
  /** The agents of the offer's type. */
  readonly presence: Presence | null;
  readonly passed_over: readonly CorruptCheckpoint[];
  readonly owner: RecoveryPreview["owner"];
  /** The open handoff, which would be cancelled. */
  readonly handoff_id: string | null;
  /** The refusal that the fleet would answer; null: none. */
  readonly refused: { readonly code: ErrorCode; readonly reason: string } | null;
}

export function dryRunOf(task: Task, point: RecoveryPreview, presence: Presence | null): RecoveryDryRun {
  const found = point.checkpoint;
  return {
    dry_run: true,
    task_id: task.task_id,
    state: task.state,
    from: found && {
      checkpoint_id: found.metadata.checkpoint_id,
      seq: found.metadata.seq,
      phase: found.execution_state.phase,
      agent_id: found.metadata.agent_id,
      agent_type: found.metadata.agent_type,
      committed_at: found.metadata.committed_at,
    },
    offer: point.offer,
    presence,
    passed_over: point.passed_over,
    owner: point.owner,
    handoff_id: task.handoff_id,
    refused: refusal(point),
  };
}

/** The fleet's own answer, with the option that would change it. */
function refusal({ refused }: RecoveryPreview): RecoveryDryRun["refused"] {
  if (refused === null) return null;
  const { code, message, details = {} } = refused;
  const { state, alive_until: until } = details;
  if (typeof until === "string")
    return { code, reason: `its owner counts as alive until ${until}; --force takes the task from it` };
  return { code, reason: typeof state === "string" ? `${message} (${state})` : message };
}

/** `signatures`: of the recovery point. */
export function renderDryRun(
  preview: RecoveryDryRun,
  view: View,
  signatures: readonly EsignBlock[] = [],
): string {
  const { from, refused, handoff_id: handoff } = preview;
  const { now } = view;
  return [
    headline(preview, view),
    field("Task", `${plain(preview.task_id)}, ${preview.state}`, view),
    ...(from === null
      ? []
      : [
          field(
            "From",
            `${shownId(from.checkpoint_id)}, checkpoint ${from.seq} of the task, in phase ${from.phase}`,
            view,
          ),
          ...signedFields(from.checkpoint_id, signatures, view),
          field(
            "Written by",
            `${principalText(from.agent_id)} (${plain(from.agent_type)}), ${exactly(from.committed_at, now)}`,
            view,
          ),
        ]),
    ...preview.passed_over.map(({ checkpoint_id: id, reason }) =>
      field("Passed over", `${id === null ? "a checkpoint" : shownId(id)}: ${plain(reason)}`, view),
    ),
    ...offerLines(preview, view),
    field("Owner", ownerText(preview), view),
    ...optionalField(
      refused === null ? "Cancels" : "Open handoff",
      handoff === null ? null : `handoff ${handoff}`,
      view,
    ),
  ].join("\n");
}

function ownerText({ owner, refused }: RecoveryDryRun): string {
  if (owner === null) return "none";
  return `${principalText(owner.agent_id)}, fence ${owner.fence}${refused === null ? ", would lose the task" : ""}`;
}

function headline({ refused, offer, presence }: RecoveryDryRun, { colors }: View): string {
  if (refused !== null)
    return `${colors.red("The recovery would be refused:")} ${plain(refused.reason)}. Nothing was changed.`;
  const result =
    offer?.is_known === false
      ? colors.red("The task would be blocked, because the agent type does not exist.")
      : presence?.is_free === false
        ? colors.yellow("The task would wait for an agent.")
        : colors.green("The task would continue.");
  return `${result} Nothing was changed.`;
}

/** The next agent, and the consequence if none accepts. */
function offerLines({ task_id, refused, offer, presence }: RecoveryDryRun, view: View): string[] {
  if (offer === null) return [];
  const { agent_type: type, is_known: isKnown, max_attempts: times, deadline_ms: deadlineMs } = offer;
  const next = field("Offered to", `agents of type ${plain(type)}`, view);
  if (!isKnown) return [next, field("Unknown type", "FLEET_AGENT_TYPES no longer contains it", view)];
  return [
    next,
    ...optionalField("Available agents", presence && presenceText(presence, task_id, view.now), view),
    ...(refused !== null || presence?.is_free === true
      ? []
      : [
          field(
            "If none accepts",
            `after ${counted(times, "offer")} of ${span(deadlineMs)}${times === 1 ? "" : " each"}, the task is blocked and operators are alerted`,
            view,
          ),
        ]),
  ];
}
