// What a recovery would do, for `fleet recover --dry-run`: from where, who would lose the task, and whether it would be refused.

import type { ErrorCode } from "../../../../shared/protocol/errors.ts";
import type { CorruptCheckpoint, RecoveryPreview } from "../../../../shared/protocol/queries.ts";
import { TASK_TABLE } from "../../../../shared/protocol/task.ts";
import type { Task } from "../../../../shared/sdk/sdk.ts";
import type { Presence } from "../../commands/recovery/agent-presence.ts";
import { field } from "../terminal/fields.ts";
import { counted, plain, shownId } from "../terminal/text.ts";
import { exactly, span } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";
import { presenceText } from "./presence.ts";

export interface RecoveryDryRun {
  readonly dry_run: true;
  readonly task_id: string;
  readonly state: Task["state"];
  /** Where work would go on; null: nowhere. */
  readonly from: {
    readonly checkpoint_id: string;
    readonly seq: number;
    readonly phase: string;
    readonly agent_id: string;
    readonly agent_type: string;
    readonly committed_at: string;
  } | null;
  /** To whom it would be offered; null: to nobody, there is nothing to go on from. */
  readonly offer: RecoveryPreview["offer"];
  /** Who of them is there. */
  readonly presence: Presence | null;
  readonly passed_over: readonly CorruptCheckpoint[];
  readonly owner: RecoveryPreview["owner"];
  /** The open handoff, which would come to nothing. */
  readonly handoff_id: string | null;
  /** Why it would not go on. */
  readonly refused: { readonly code: ErrorCode; readonly reason: string } | null;
}

export interface PreviewOptions {
  readonly force?: boolean | undefined;
  readonly presence: Presence | null;
}

export function dryRunOf(
  task: Task,
  point: RecoveryPreview,
  { force = false, presence }: PreviewOptions,
): RecoveryDryRun {
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
    refused: refusal(task, point, force),
  };
}

/** As the fleet would judge. */
function refusal(
  { state }: Task,
  { reason, details, owner }: RecoveryPreview,
  force: boolean,
): RecoveryDryRun["refused"] {
  if (TASK_TABLE[state].handoff === null)
    return {
      code: "CONFLICT",
      reason: `the task is over (${state}); a checkpoint written to it opens it again`,
    };
  if (reason !== null)
    return { code: reason === "chain_broken" ? "CORRUPT" : "NOT_FOUND", reason: details ?? reason };
  const until = owner?.alive_until ?? null;
  if (until === null || force) return null;
  return {
    code: "CONFLICT",
    reason: `its agent lives, as far as is known until ${until}; --force takes the task from it`,
  };
}

export function renderDryRun(preview: RecoveryDryRun, view: View): string {
  const { from, owner, refused, handoff_id: handoff } = preview;
  const { now } = view;
  const fact = (name: string, value: string | null): string[] =>
    value === null ? [] : [field(name, value, view)];
  return [
    headline(preview, view),
    field("Task", `${plain(preview.task_id)}, ${preview.state}`, view),
    ...(from === null
      ? []
      : [
          field("From", `${shownId(from.checkpoint_id)}, number ${from.seq}, in phase ${from.phase}`, view),
          field(
            "Written by",
            `${plain(from.agent_id)} (${plain(from.agent_type)}), ${exactly(from.committed_at, now)}`,
            view,
          ),
        ]),
    ...preview.passed_over.map(({ checkpoint_id: id, reason }) =>
      field("Passed over", `${id === null ? "one" : shownId(id)}: ${plain(reason)}`, view),
    ),
    ...offerLines(preview, view),
    field(
      refused === null ? "Loses the task" : "Has the task",
      owner === null ? "nobody, for nobody owns it" : `${plain(owner.agent_id)}, fence ${owner.fence}`,
      view,
    ),
    ...fact("Comes to nothing", handoff === null ? null : `handoff ${handoff}`),
  ].join("\n");
}

function headline({ refused, offer, presence }: RecoveryDryRun, { colors }: View): string {
  if (refused !== null)
    return `${colors.red("It would not go on:")} ${plain(refused.reason)}. Nothing was changed.`;
  const how =
    offer?.is_known === false
      ? colors.red("It would be blocked again, for no agent may have the type.")
      : presence?.is_free === false
        ? colors.yellow("It would wait for an agent.")
        : colors.green("It would go on.");
  return `${how} Nothing was changed.`;
}

/** With whom it goes on, and what follows when nobody is there to take it. */
function offerLines({ task_id, refused, offer, presence }: RecoveryDryRun, view: View): string[] {
  if (offer === null) return [];
  const { agent_type: type, is_known: isKnown, max_attempts: times, deadline_ms: standsMs } = offer;
  const goesOn = field("Goes on with", `agents of type ${plain(type)}`, view);
  if (!isKnown) return [goesOn, field("Unknown type", "FLEET_AGENT_TYPES does not name it any more", view)];
  return [
    goesOn,
    ...(presence === null ? [] : [field("Seen of them", presenceText(presence, task_id, view.now), view)]),
    ...(refused !== null || presence?.is_free === true
      ? []
      : [
          field(
            "When nobody comes",
            `it is offered ${counted(times, "time")}, for ${span(standsMs)}${times === 1 ? "" : " each"}; then the task is blocked and people are alerted`,
            view,
          ),
        ]),
  ];
}
