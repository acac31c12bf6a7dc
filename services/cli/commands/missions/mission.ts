// `fleet mission`: starts, lists, shows and changes missions.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { toSnake } from "../../../../shared/sdk/case-convert.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { autoResumeOption, type RecoveryFlags, recoveredMission } from "./available-recovery.ts";
import { fenceOption } from "./named-mission.ts";

const ENDS = ["in_progress", "completed", "failed", "cancelled"] as const;

export function addMission(program: Command, action: ActionFactory): void {
  const group = program.command("mission").description("Start, list, show and change missions.");
  addStart(group, action);
  addMissionList(group, action);
  const show = group
    .command("show")
    .description("Show a mission with the states of its sorties (else the current one).")
    .argument("[mission]", "the mission")
    .addOption(autoResumeOption())
    .action(action(showMission));
  withExamples(show, (fleet) => ({ "The current mission": `${fleet} mission show` }));
  const update = group
    .command("update")
    .description("Change the title or the status of a mission. Its end writes the final checkpoint.")
    .argument("[mission]", "the mission (else the current one)")
    .option("--title <text>", "the new title")
    .addOption(new Option("-s, --status <status>", "the new status").choices(ENDS))
    .addOption(autoResumeOption())
    .addOption(fenceOption())
    .action(action(updateMission));
  withExamples(update, (fleet) => ({
    "The mission is done": `${fleet} mission update msn-auth -s completed`,
  }));
}

interface StartFlags {
  readonly title: string;
  readonly description?: string;
  readonly type?: string;
  readonly fence?: number;
  readonly quiet?: true;
}

function addStart(group: Command, action: ActionFactory): void {
  const command = group
    .command("start")
    .description("Start a mission. To coordinate it as its owner, take its task first: `fence take`.")
    .argument("[mission]", "its id (else msn- and a new id)")
    .requiredOption("--title <text>", "what it is for")
    .option("--description <text>", "more about it")
    .option("--type <type>", "the agent type that continues it after a failure")
    .addOption(fenceOption())
    .option("-q, --quiet", "print only its id")
    .action(action(start));
  withExamples(command, (fleet) => ({
    "A mission": `${fleet} mission start msn-auth --title "Implement user authentication"`,
  }));
}

async function start(session: Session, id: string | undefined, flags: StartFlags): Promise<void> {
  const client = await session.client();
  const { title, description, type: agentType, fence } = flags;
  const { newCommandId } = await import("../../../../shared/sdk/sdk.ts");
  const name = id ?? `msn-${newCommandId()}`;
  const options = { ...session.deadline, fence };
  const result = await client.mission(name).start({ title, description, agentType }, options);
  await session.show(toSnake(result), () =>
    flags.quiet ? result.taskId : `Mission started: ${result.taskId}`,
  );
}

interface ListFlags {
  readonly active?: true;
  readonly recoverable?: true;
  readonly agent?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

function addMissionList(group: Command, action: ActionFactory): void {
  const command = group
    .command("list")
    .description("List missions with their status and progress, ordered by their ids.")
    .option("--active", "only those that have not ended")
    .option("--recoverable", "only those that were silent and can be resumed from a checkpoint")
    .option("--agent <id>", "only those that this agent coordinates")
    .addOption(limitOption(LIMITS.missions_limit_default, LIMITS.missions_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(list));
  withExamples(command, (fleet) => ({ "The missions that have not ended": `${fleet} missions --active` }));
}

async function list(session: Session, flags: ListFlags): Promise<void> {
  const client = await session.client();
  const { active = false, recoverable = false, agent: agentId, limit, cursor } = flags;
  const filter = { active, recoverable, agentId };
  const page = await client.missions.list({ ...session.deadline, ...filter, limit, cursor });
  for (const mission_id of page.corrupt) {
    const text = "the record of a mission is corrupt and was left out";
    session.warn({ code: "CORRUPT", text, details: { mission_id } });
  }
  const next = nextPage(session, page.cursor);
  const { renderMissions } = await import("../../rendering/missions/mission.ts");
  await session.show(page, () => renderMissions({ missions: page.missions, next }, session.view));
}

async function showMission(session: Session, id: string | undefined, flags: RecoveryFlags): Promise<void> {
  const { orFromCopies } = await import("./mission-copies.ts");
  const { showCopiedMission } = await import("./copied-mission.ts");
  await orFromCopies(
    session,
    () => showStoredMission(session, id, flags),
    (copies) => showCopiedMission(session, copies, id),
  );
}

async function showStoredMission(
  session: Session,
  id: string | undefined,
  flags: RecoveryFlags,
): Promise<void> {
  const { mission, handle } = await recoveredMission(session, id, flags);
  const { renderMissionPage } = await import("../../rendering/missions/mission.ts");
  const { besideMember, signaturesOfNamed } = await import("../esign/shown-signatures.ts");
  const { mission_id, checkpoint_id } = mission;
  const signatures = await signaturesOfNamed(session, mission_id, [checkpoint_id]);
  await session.show({ ...mission, ...besideMember(signatures) }, async () => {
    const { sorties } = await handle.sorties({ ...session.deadline, limit: LIMITS.sorties_limit_max });
    return renderMissionPage(mission, { sorties, signatures }, session.view);
  });
}

interface UpdateFlags extends RecoveryFlags {
  readonly title?: string;
  readonly status?: (typeof ENDS)[number];
}

async function updateMission(
  session: Session,
  id: string | undefined,
  { title, status, ...flags }: UpdateFlags,
): Promise<void> {
  const { handle } = await recoveredMission(session, id, flags);
  const result = await handle.update({ title, status }, session.deadline);
  const { renderMissionResult } = await import("../../rendering/missions/mission.ts");
  await session.show(toSnake(result), () => renderMissionResult("Mission updated", result));
}
