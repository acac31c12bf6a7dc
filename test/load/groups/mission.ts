// Missions of 1,000 sorties (seed 002): their checkpoints, resumptions and queries.

import type { Group } from "../measure/table.ts";
import { row, TARGETS } from "../measure/targets.ts";
import type { MissionJobs } from "../programs/missions.ts";
import type { Session } from "../session.ts";

export async function measureMission(session: Session): Promise<Group> {
  const { quick } = session.options;
  session.log("mission: starting a fleet");
  const fleet = await session.fleet(session.folder());
  const coordinator = session.program<MissionJobs>("missions");
  session.log("mission: adding the sorties");
  const count = await coordinator.run("start", { url: fleet.busUrl });
  const rounds = quick ? 10 : 100;
  await coordinator.run("checkpoint", { rounds: 10 });
  session.log("mission: checkpoints");
  const checkpoint = await coordinator.run("checkpoint", { rounds });
  session.log("mission: resumptions");
  const resume = await coordinator.run("resume", { rounds });
  session.log("mission: queries");
  const queries = await coordinator.run("query", { rounds });
  await coordinator.run("end", {});
  await coordinator.stop();
  await fleet.stop();
  return {
    name: "mission",
    about: `a mission of ${count} sorties, one request at a time`,
    rows: [
      row("checkpoint of the mission, p50", checkpoint.p50, "ms"),
      row("checkpoint of the mission, p95", checkpoint.p95, "ms", TARGETS.mission_checkpoint),
      row("resume from a checkpoint, p50", resume.p50, "ms"),
      row("resume from a checkpoint, p95", resume.p95, "ms", TARGETS.mission_resume),
      row("the mission, p95", queries.state.p95, "ms", TARGETS.mission_query),
      row("a page of sorties, p95", queries.sorties.p95, "ms", TARGETS.mission_query),
      row("its recovery context, p95", queries.context.p95, "ms", TARGETS.mission_query),
      row("its newest checkpoint, p95", queries.latest.p95, "ms", TARGETS.mission_query),
      row("its 10 newest checkpoints, each with all sorties, p95", queries.checkpoints.p95, "ms"),
    ],
  };
}
