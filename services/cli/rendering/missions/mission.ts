// Missions and their sorties, for operators.

import type { EsignBlock } from "../../../../shared/protocol/esign.ts";
import { SORTIE_STATUSES } from "../../../../shared/protocol/mission.ts";
import type { Mission, MissionCheckpoint, MissionResult, Sortie } from "../../../../shared/sdk/sdk.ts";
import { signedFields } from "../esign/signatures.ts";
import { field, optionalField } from "../terminal/fields.ts";
import { pageEnd, tableLines } from "../terminal/table.ts";
import { counted, plain, principalText, shownId } from "../terminal/text.ts";
import { ago, exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export function renderMissions(
  { missions, next }: { readonly missions: readonly Mission[]; readonly next: string | undefined },
  view: View,
): string {
  if (missions.length === 0 && next === undefined) return "Missions\n\nNone.";
  const heads = ["MISSION", "STATUS", "PROGRESS", "SORTIES", "ACTIVITY", "COORDINATOR", "TITLE"];
  const rows = missions.map((one) => [
    plain(one.mission_id),
    one.status,
    `${one.progress_percent}%`,
    String(totalOf(one.sorties)),
    ago(one.last_activity_at, view.now),
    one.coordinator === null ? "-" : principalText(one.coordinator),
    plain(one.title),
  ]);
  const fit = [
    { least: 12, names: true },
    undefined,
    undefined,
    { leaves: 1 },
    { leaves: 2 },
    { leaves: 3 },
    { least: 12 },
  ] as const;
  return [
    ...tableLines(rows, { heads, view, fit }),
    "",
    ...pageEnd(counted(missions.length, "mission"), next, view),
  ].join("\n");
}

interface MissionPage {
  readonly sorties: readonly Sortie[];
  /** Of its checkpoint. */
  readonly signatures: readonly EsignBlock[];
}

export function renderMissionPage(
  mission: Mission,
  { sorties, signatures }: MissionPage,
  view: View,
): string {
  const { coordinator, fence } = mission;
  return [
    field("Mission", `${view.colors.bold(plain(mission.mission_id))} - "${plain(mission.title)}"`, view),
    ...optionalField("Description", mission.description && plain(mission.description), view),
    field("Status", mission.status, view),
    field("Progress", `${mission.progress_percent}%`, view),
    field(
      "Coordinator",
      coordinator === null ? "none" : `${principalText(coordinator)}, fence ${fence}`,
      view,
    ),
    field("Last activity", exactly(mission.last_activity_at, view.now), view),
    ...optionalField("Silent since", mission.silence && exactly(mission.silence.since, view.now), view),
    ...optionalField("Checkpoint", mission.checkpoint_id && shownId(mission.checkpoint_id), view),
    ...signedFields(mission.checkpoint_id, signatures, view),
    "",
    view.colors.dim(`Sorties (${totalOf(mission.sorties)}):`),
    ...sortieLines(sorties, view).map((line) => `  ${line}`),
  ].join("\n");
}

export function renderSorties(
  {
    mission,
    sorties,
    next,
  }: { readonly mission: Mission; readonly sorties: readonly Sortie[]; readonly next: string | undefined },
  view: View,
): string {
  const title = `Sorties of mission ${plain(mission.mission_id)}`;
  if (sorties.length === 0 && next === undefined) return `${title}\n\nNone.`;
  return [
    title,
    "",
    ...sortieLines(sorties, view, true),
    "",
    ...pageEnd(counted(sorties.length, "sortie"), next, view),
  ].join("\n");
}

function sortieLines(sorties: readonly Sortie[], view: View, withHeads = false): string[] {
  const rows = sorties.map((one) => [
    plain(one.sortie_id),
    one.status,
    one.assigned_to === null ? "-" : principalText(one.assigned_to),
    plain(one.title),
    plain(one.files.join(", ") || "-"),
  ]);
  const fit = [{ least: 8, names: true }, undefined, { least: 8 }, { least: 12 }, { leaves: 1 }] as const;
  const heads = ["SORTIE", "STATUS", "SPECIALIST", "TITLE", "FILES"];
  return tableLines(rows, { view, fit, ...(withHeads ? { heads } : { indent: 2 }) });
}

export function renderMissionResult(done: string, result: MissionResult): string {
  return [
    done,
    `Mission: ${plain(result.taskId)}, ${result.missionStatus}`,
    `Progress: ${result.progressPercent}%`,
    ...(result.checkpointId === undefined ? [] : [`Checkpoint created: ${shownId(result.checkpointId)}`]),
  ].join("\n");
}

/** In the shape of seed 002. */
export function renderMissionCheckpoint(
  made: Extract<MissionCheckpoint, { outcome: "committed" }>,
  { colors }: View,
): string {
  const states = SORTIE_STATUSES.filter((status) => made.sorties[status] > 0)
    .toSorted((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b))
    .map((status) => `${made.sorties[status]} ${status}`);
  const parts = states.length === 0 ? "" : ` (${states.join(", ")})`;
  const failed = made.failedMessageCount ?? 0;
  return [
    `${colors.green("Checkpoint created:")} ${shownId(made.checkpointId)}`,
    `Mission: ${plain(made.taskId)}`,
    `Progress: ${made.progressPercent}%`,
    `Sorties: ${totalOf(made.sorties)}${parts}`,
    `Locks: ${made.lockCount} active`,
    `Messages: ${made.messageCount} pending${failed > 0 ? ` (${failed} failed)` : ""}`,
  ].join("\n");
}

const ORDER: readonly string[] = ["completed", "in_progress", "blocked", "assigned", "pending", "failed"];

const totalOf = (counts: Mission["sorties"]): number =>
  Object.values(counts).reduce((sum, one) => sum + one, 0);
