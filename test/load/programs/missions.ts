// Program: the coordinator of a mission with as many sorties as a mission may have. The times are those of the coordinator: of a
// checkpoint of the whole mission, of its resumption, and of the queries of an orchestrator.

import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { MissionHandle, NewSortie } from "../../../shared/sdk/mission/mission.ts";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { serveJobs } from "../jobs.ts";
import { type Summary, summarize } from "../measure/percentiles.ts";

const SORTIES_AT_ONCE = 100;
const MISSION = "bench-mission";

let coordinator: FleetClient;
let mission: MissionHandle;

const jobs = { start, checkpoint, resume, query, end };
export type MissionJobs = typeof jobs;
serveJobs(jobs);

/** Half of the sorties are completed. Returns their number. */
async function start({ url }: { url: string }): Promise<number> {
  coordinator = await connect({ url, agentId: "bench-coordinator", fallback: "none" });
  mission = coordinator.mission(MISSION);
  await mission.start({ title: "Measure the mission", description: "A mission of the largest size" });
  const count = LIMITS.mission_sorties_count_max;
  for (let from = 0; from < count; from += SORTIES_AT_ONCE)
    await mission.addSorties(Array.from({ length: SORTIES_AT_ONCE }, (_, i) => sortie(from + i)));
  for (let from = 0; from < count / 2; from += 1) {
    await mission.updateSortie(nameOf(from), { status: "in_progress" });
    await mission.updateSortie(nameOf(from), { status: "completed" });
  }
  return count;
}

const nameOf = (n: number): string => `endpoint-${n}`;

const sortie = (n: number): NewSortie => ({
  sortieId: nameOf(n),
  title: `Add the endpoint ${n} with its tests`,
  assignedTo: "bench-specialist",
  files: [`src/api/endpoint-${n}.ts`],
});

const firstPage = () => mission.sorties({ limit: LIMITS.missions_limit_max });

function checkpoint({ rounds }: { rounds: number }): Promise<Summary> {
  return timed(rounds, () => mission.checkpoint());
}

/** Between two resumptions the mission has progress that the next one clears. */
async function resume({ rounds }: { rounds: number }): Promise<Summary> {
  const { checkpointId } = await mission.checkpoint();
  return timed(
    rounds,
    () => mission.resume({ checkpointId }),
    () => mission.updateSortie(nameOf(LIMITS.mission_sorties_count_max - 1), { status: "in_progress" }),
  );
}

async function query({
  rounds,
}: {
  rounds: number;
}): Promise<Record<"state" | "sorties" | "context" | "latest" | "checkpoints", Summary>> {
  return {
    state: await timed(rounds, () => mission.state()),
    sorties: await timed(rounds, () => firstPage()),
    context: await timed(rounds, () => mission.recoveryContext()),
    latest: await timed(rounds, () => coordinator.getLatestCheckpoint(MISSION)),
    checkpoints: await timed(rounds, () => coordinator.getCheckpointHistory(MISSION, { limit: 10 })),
  };
}

async function end(_: object): Promise<void> {
  await coordinator.close();
}

/** `prepare` is not measured. */
async function timed(
  rounds: number,
  act: () => Promise<unknown>,
  prepare: () => Promise<unknown> = async () => {},
): Promise<Summary> {
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    await prepare();
    const begin = performance.now();
    await act();
    times.push(performance.now() - begin);
  }
  return summarize(times);
}
