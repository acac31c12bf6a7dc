// `fleet checkpoint list`: the newest checkpoints of one task, one agent or all tasks.

import type { Command } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { CURSOR, limitOption, limitRange, requireLimit } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { autoResumeOption } from "../missions/available-recovery.ts";
import type { MissionCopies } from "../missions/mission-copies.ts";
import type { NamedMission } from "../missions/named-mission.ts";
import { showCheckpoints, warnAbout } from "./print-page.ts";

interface Flags {
  readonly task?: string;
  /** true: the current mission. */
  readonly mission?: string | true;
  readonly agent?: string;
  readonly all?: true;
  readonly autoResume?: true | undefined;
  readonly limit?: number;
  readonly cursor?: string;
}

/** The history of a task and the search index have pages of different sizes. */
const RANGE = `${limitRange(LIMITS.search_limit_default, LIMITS.search_limit_max)}, or ${LIMITS.history_limit_max} with --task alone`;

/** Seed 002, `fleet checkpoints list`. */
const MISSION_ROWS = 10;

export function addList(group: Command, action: ActionFactory): void {
  const command = group
    .command("list")
    .description(
      "List checkpoints of one task, one agent or the current mission, newest first; without a mission, those of all tasks.",
    )
    .option("-t, --task <id>", "only those of this task")
    .option("--mission [id]", "those of this mission (else the current one), with their sorties")
    .option("--agent <id>", "only those of this agent")
    .option("--all", "those of all tasks, also while a mission is active")
    .addOption(autoResumeOption())
    .addOption(limitOption(LIMITS.history_limit_default, LIMITS.history_limit_max, RANGE))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(command, (fleet) => ({
    "The newest checkpoints of all tasks": `${fleet} checkpoint list --all`,
    "The checkpoints of the current mission": `${fleet} checkpoints list`,
    "The checkpoints of one task": `${fleet} checkpoint list --task auth --limit 50`,
  }));
}

async function list(session: Session, flags: Flags): Promise<void> {
  const { orFromCopies } = await import("../missions/mission-copies.ts");
  await orFromCopies(
    session,
    () => listStored(session, flags),
    (copies) => listCopied(session, copies, flags),
  );
}

async function listStored(session: Session, flags: Flags): Promise<void> {
  const { task, agent, limit, cursor } = flags;
  const ofOneTask = task !== undefined && agent === undefined;
  if (!ofOneTask && flags.mission === undefined) requireLimit(limit, LIMITS.search_limit_max, RANGE);
  const mission = await missionOf(session, flags);
  if (mission !== null) return listOfMission(session, mission, flags);
  const client = await session.client();
  const options = { limit, cursor, ...session.deadline };
  // The history of a task is always current. The search index, which answers all other queries, follows a moment later.
  const page = ofOneTask
    ? await client.getCheckpointHistory(task, { ...options, order: "newest" })
    : await client.searchCheckpoints({ ...options, taskId: task, agentId: agent });
  const { plain } = await import("../../rendering/terminal/text.ts");
  const whose = task === undefined ? "all tasks" : `task ${plain(task)}`;
  await showCheckpoints(session, page, {
    title: `Checkpoints of ${whose}${agent === undefined ? "" : `, by agent ${plain(agent)}`}`,
    withTask: task === undefined,
    next: nextPage(session, page.cursor),
  });
}

/** Seed 002: without a task or an agent, those of the current mission. null: those of tasks. */
async function missionOf(
  session: Session,
  { task, agent, all, mission, autoResume }: Flags,
): Promise<NamedMission | null> {
  const { recoveredMission } = await import("../missions/available-recovery.ts");
  if (mission !== undefined) {
    return recoveredMission(session, mission === true ? undefined : mission, { autoResume });
  }
  if (task !== undefined || agent !== undefined || all === true) return null;
  const current = await (await session.client()).missions.current(session.deadline);
  return current === null ? null : recoveredMission(session, current.mission_id, { autoResume });
}

/** While the fleet is away: those of the mission. False: the call is about others, or no file has them. */
async function listCopied(
  session: Session,
  copies: MissionCopies,
  { mission, task, agent, all, cursor, limit = MISSION_ROWS }: Flags,
): Promise<boolean> {
  const isOfMission = mission !== undefined || (task === undefined && agent === undefined && all !== true);
  if (!isOfMission || cursor !== undefined) return false;
  const id = typeof mission === "string" ? mission : (await copies.current())?.mission_id;
  const checkpoints = id === undefined ? [] : (await copies.checkpointsOf(id)).slice(0, limit);
  if (id === undefined || checkpoints.length === 0) return false;
  const { renderMissionCheckpoints } = await import("../../rendering/missions/checkpoints.ts");
  const { warnNotInMirror } = await import("../esign/shown-signatures.ts");
  warnNotInMirror(session, { task_id: id });
  const of = { mission: { mission_id: id }, checkpoints, signatures: [], next: undefined };
  await session.show(checkpoints, () => renderMissionCheckpoints(of, session.view));
  return true;
}

/** In the shape of seed 002; as JSON an array. */
async function listOfMission(
  session: Session,
  { client, mission }: NamedMission,
  { limit = MISSION_ROWS, cursor }: Flags,
): Promise<void> {
  const options = { limit, cursor, ...session.deadline, order: "newest" } as const;
  const page = await client.getCheckpointHistory(mission.mission_id, options);
  warnAbout(session, page);
  const next = nextPage(session, page.cursor);
  const { renderMissionCheckpoints } = await import("../../rendering/missions/checkpoints.ts");
  const { signaturesOf, withBlocks } = await import("../esign/shown-signatures.ts");
  const { checkpoints } = page;
  const signatures = await signaturesOf(session, checkpoints);
  await session.show(withBlocks(checkpoints, signatures), () =>
    renderMissionCheckpoints({ mission, checkpoints, signatures, next }, session.view),
  );
}
