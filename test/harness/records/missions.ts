/** Missions for tests, by the commands of a coordinator and its specialists. */
import type { CheckpointRepository } from "../../../shared/records/repository.ts";
import { type SendOptions, send } from "./records.ts";

export const MISSION = "msn-1";
const by = { task: MISSION, agent: "dispatch" } as const;

/** Starts a mission without an owner, with sorties `srt-001` and so on, assigned to `specialist-<n>`. */
export async function startMission(
  repository: CheckpointRepository,
  count: number,
  options: SendOptions = {},
) {
  await send(repository, "mission_start", { title: "Implement user authentication" }, { ...by, ...options });
  for (let from = 0; from < count; from += 100) {
    const sorties = Array.from({ length: Math.min(100, count - from) }, (_, i) => ({
      sortie_id: sortieId(from + i + 1),
      title: `part ${from + i + 1}`,
      files: [`src/part-${from + i + 1}.ts`],
      assigned_to: specialist(from + i + 1),
    }));
    await send(repository, "sortie_add", { sorties }, { ...by, ...options });
  }
}

export const sortieId = (n: number): string => `srt-${String(n).padStart(3, "0")}`;
export const specialist = (n: number): string => `specialist-${n}`;

/** The specialist of a sortie changes it. */
export function report(repository: CheckpointRepository, n: number, body: object, options: SendOptions = {}) {
  const change = { sortie_id: sortieId(n), ...body };
  return send(repository, "sortie_update", change, { task: MISSION, agent: specialist(n), ...options });
}

/** The specialist of a sortie begins and completes it. */
export async function completeSortie(repository: CheckpointRepository, n: number, options: SendOptions = {}) {
  await report(repository, n, { status: "in_progress" }, options);
  return report(repository, n, { status: "completed" }, options);
}
