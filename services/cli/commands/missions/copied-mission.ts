// `fleet mission show` and `fleet resume --dry-run` while the fleet is away, from the newest copied checkpoint of the mission.

import { missionSnapshotSchema } from "../../../../shared/protocol/mission.ts";
import type { ResumePreview } from "../../../../shared/protocol/mission-queries.ts";
import type { Session } from "../../runtime/session.ts";
import type { MissionCopies, MissionCopy } from "./mission-copies.ts";

/** Default of `id`: the current mission. False: no copied checkpoint has a snapshot of it. */
export async function showCopiedMission(
  session: Session,
  copies: MissionCopies,
  id: string | undefined,
): Promise<boolean> {
  const copy = await (id === undefined ? copies.current() : copies.snapshotOf(id));
  if (copy === null) return false;
  const { mission_id, title, fleet, checkpoint } = copy;
  const { checkpoint_id, committed_at: as_of } = checkpoint.metadata;
  const { renderMissionCopy } = await import("../../rendering/missions/copy.ts");
  const { warnNotInMirror } = await import("../esign/shown-signatures.ts");
  warnNotInMirror(session, { checkpoint_id });
  await session.show({ mission_id, title, as_of, checkpoint_id, fleet }, () =>
    renderMissionCopy(copy, session.view),
  );
  return true;
}

/** What a resumption would restore as far as the files tell: the state of the sorties now is unknown. */
export async function showCopiedResumption(
  session: Session,
  copies: MissionCopies,
  {
    mission: id,
    checkpoint,
  }: { readonly mission?: string | undefined; readonly checkpoint?: string | undefined },
): Promise<boolean> {
  const copy = await copyToResume(copies, id, checkpoint);
  const preview = copy === null ? null : previewOf(copy);
  if (copy === null || preview === null) return false;
  const { renderResumePlan, renderResumePoint } = await import("../../rendering/missions/resume.ts");
  const { warnNotInMirror } = await import("../esign/shown-signatures.ts");
  warnNotInMirror(session, { checkpoint_id: preview.checkpoint_id });
  const point = renderResumePoint(copy, { preview, signatures: [] }, session.view);
  await session.show(preview, () => `${point}\n\n${renderResumePlan(preview)}\n\nNothing was changed.`);
  return true;
}

async function copyToResume(
  copies: MissionCopies,
  id: string | undefined,
  checkpoint: string | undefined,
): Promise<MissionCopy | null> {
  const task = id ?? (checkpoint && (await copies.checkpoint(checkpoint))?.metadata.task_id);
  return task === undefined ? copies.current() : copies.snapshotOf(task, checkpoint);
}

/** null: an orchestrator wrote the snapshot, and not the fleet. */
function previewOf({ mission_id, checkpoint, fleet }: MissionCopy): ResumePreview | null {
  const snapshot = missionSnapshotSchema.safeParse(fleet);
  if (!snapshot.success) return null;
  const { progress_percent, sorties, active_locks, pending_messages, recovery_context } = snapshot.data;
  return {
    mission_id,
    checkpoint_id: checkpoint.metadata.checkpoint_id,
    progress_percent,
    completed_sorties: sorties.filter(({ status }) => status === "completed").length,
    total_sorties: sorties.length,
    restored: { sorties: sorties.length, locks: active_locks.length, messages: pending_messages.length },
    changes: [],
    kept_sorties: [],
    passed_over: [],
    messages: pending_messages.map(({ id: message_id, from, to, subject }) => ({
      ...{ message_id, from, to, subject },
    })),
    skipped_messages: [],
    recovery_context,
  };
}
