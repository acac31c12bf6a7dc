// `fleet sortie`: adds, lists and changes the sorties of a mission.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { toSnake } from "../../../../shared/sdk/case-convert.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { autoResumeOption, type RecoveryFlags, recoveredMission } from "./available-recovery.ts";
import { fenceOption, MISSION_HELP, namedMission } from "./named-mission.ts";

/** The protocol's own list comes with its schemas, which would make the help slow. */
const STATUSES = ["pending", "assigned", "in_progress", "blocked", "completed", "failed"] as const;
type Status = (typeof STATUSES)[number];

interface Flags extends RecoveryFlags {
  readonly mission?: string;
  readonly id?: string;
  readonly title?: string;
  readonly files?: readonly string[];
  readonly assign?: string;
  readonly status?: Status;
  readonly notes?: string;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addSortie(program: Command, action: ActionFactory): void {
  const group = program.command("sortie").description("Add, list and change the sorties of a mission.");
  const addition = group
    .command("add")
    .description("Add a sortie to a mission.")
    .argument("<title>", "the work")
    .option("--mission <id>", MISSION_HELP)
    .option("--id <id>", "its id (else srt- and its number)")
    .option("--files <path...>", "the files of the work")
    .option("--assign <agent>", "the specialist")
    .addOption(autoResumeOption())
    .addOption(fenceOption())
    .action(action(add));
  withExamples(addition, (fleet) => ({
    "A sortie with its specialist": `${fleet} sortie add "API routes" --files src/api/routes.ts --assign specialist-1`,
  }));
  const listing = group
    .command("list")
    .description("List the sorties of a mission, ordered by their ids.")
    .option("--mission <id>", MISSION_HELP)
    .addOption(new Option("-s, --status <status>", "only those in this status").choices(STATUSES))
    .option("--assign <agent>", "only those of this specialist")
    .addOption(limitOption(LIMITS.sorties_limit_default, LIMITS.sorties_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .addOption(autoResumeOption())
    .action(action(list));
  withExamples(listing, (fleet) => ({ "What is blocked": `${fleet} sorties --status blocked` }));
  const update = group
    .command("update")
    .description("Change a sortie. A specialist changes its own sorties; give its name with --agent.")
    .argument("<sortie>", "the sortie")
    .option("--mission <id>", MISSION_HELP)
    .addOption(new Option("-s, --status <status>", "the new status").choices(STATUSES))
    .option("--assign <agent>", "another specialist")
    .option("--title <text>", "another title")
    .option("--files <path...>", "the files of the work")
    .option("--notes <text>", "how far the work is")
    .addOption(fenceOption())
    .action(action(change));
  withExamples(update, (fleet) => ({
    "A specialist has finished": `${fleet} sortie update srt-001 -s completed --notes "Tests pass" --agent specialist-1`,
  }));
}

async function add(session: Session, title: string, flags: Flags): Promise<void> {
  const { id: sortieId, files, assign: assignedTo, mission: id } = flags;
  const { handle } = await recoveredMission(session, id, flags);
  const sortie = { title, sortieId, assignedTo, ...(files !== undefined && { files: [...files] }) };
  const result = await handle.addSorties([sortie], session.deadline);
  const { renderMissionResult } = await import("../../rendering/missions/mission.ts");
  await session.show(toSnake(result), () =>
    renderMissionResult(`Sortie added: ${result.sortieIds?.join(", ")}`, result),
  );
}

async function list(session: Session, flags: Flags): Promise<void> {
  const { mission: id, status, assign: assignedTo, limit, cursor } = flags;
  const { handle, mission } = await recoveredMission(session, id, flags);
  const page = await handle.sorties({ ...session.deadline, status, assignedTo, limit, cursor });
  const next = nextPage(session, page.cursor);
  const { renderSorties } = await import("../../rendering/missions/mission.ts");
  await session.show(page, () => renderSorties({ mission, sorties: page.sorties, next }, session.view));
}

async function change(session: Session, sortieId: string, flags: Flags): Promise<void> {
  const { mission: id, status, assign: assignedTo, title, files, notes: progressNotes, fence } = flags;
  const { handle } = await namedMission(session, id, { fence });
  const revision = {
    status,
    assignedTo,
    title,
    progressNotes,
    ...(files !== undefined && { files: [...files] }),
  };
  const result = await handle.updateSortie(sortieId, revision, session.deadline);
  const { renderMissionResult } = await import("../../rendering/missions/mission.ts");
  await session.show(toSnake(result), () => renderMissionResult(`Sortie updated: ${sortieId}`, result));
}
