// `fleet checkpoint search`: finds checkpoints by their fields and their words.

import { type Command, Option } from "commander";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { SearchOptions } from "../../../../shared/sdk/client/options.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { momentOption } from "../../input/moment.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { showCheckpoints } from "./print-page.ts";

interface Flags {
  readonly agent?: string;
  readonly type?: string;
  readonly task?: string;
  readonly phase?: SearchOptions["phase"];
  readonly status?: "draft" | "finalized";
  readonly trigger?: SearchOptions["trigger"];
  readonly text?: string;
  readonly from?: string;
  readonly to?: string;
  readonly limit?: number;
  readonly cursor?: string;
  readonly waitFor?: string;
}

export function addSearch(group: Command, action: ActionFactory): void {
  const command = group
    .command("search")
    .description("Find checkpoints, newest first. A checkpoint must match all filters.")
    .option("--agent <id>", "written by this agent")
    .option("--type <type>", "written by an agent of this type")
    .option("-t, --task <id>", "only those of this task")
    .option("--phase <phase>", "planning, implementing, testing, reviewing, complete or handoff")
    .addOption(new Option("--status <status>", "only those with this status").choices(["draft", "finalized"]))
    .option("--trigger <reason>", "written for this reason: progress, error, handoff, manual, …")
    .option("--text <words>", "with all of these words")
    .option(
      "--from <time>",
      "from this time on, inclusive: 2h, 7d, 2026-01-04, 2026-01-04T15:30Z (UTC if without a zone)",
    )
    .option("--to <time>", "until this time, inclusive, in the same forms")
    .addOption(limitOption(LIMITS.search_limit_default, LIMITS.search_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .option("--wait-for <position>", "first wait until the index has reached this position")
    .action(action(search));
  withExamples(command, (fleet) => ({
    "The errors of the last day": `${fleet} checkpoint search --trigger error --from 24h`,
    "Decisions about token expiry": `${fleet} checkpoint search --text "token expiry" --type architecture`,
  }));
}

async function search(session: Session, flags: Flags): Promise<void> {
  const { type, agent, task, from, to, ...rest } = flags;
  const now = session.context.now();
  const range = { from: momentOption("--from", from, now), to: momentOption("--to", to, now) };
  const client = await session.client();
  const page = await client
    .searchCheckpoints({
      ...rest,
      agentId: agent,
      agentType: type,
      taskId: task,
      ...range,
      ...session.deadline,
    })
    .catch((error: unknown) => whyLate(session, error, flags.waitFor));
  await showCheckpoints(session, page, {
    title: "Checkpoints found",
    none: "No checkpoint matches.",
    withTask: task === undefined,
    next: nextPage(session, page.cursor, { "--from": range.from, "--to": range.to }),
  });
}

/** A wait for the index and a slow fleet both end in TIMEOUT. The position of the index distinguishes them. */
async function whyLate(session: Session, error: unknown, position: string | undefined): Promise<never> {
  const { FleetError } = await import("../../../../shared/protocol/errors.ts");
  if (position === undefined || !(error instanceof FleetError) || error.code !== "TIMEOUT") throw error;
  const client = await session.client();
  const index = await client.admin.indexStatus(session.deadline).catch(() => undefined);
  if (index === undefined || index.indexed_through >= position) throw error;
  throw new FleetError("UNAVAILABLE", "the index has not reached this position yet", {
    details: { indexed_through: index.indexed_through, wait_for: position },
    cause: error,
  });
}
