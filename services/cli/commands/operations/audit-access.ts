// `fleet audit access`: who has read content, and which requests were refused.

import type { Command } from "commander";
import type { AccessPage } from "../../../../shared/protocol/access-log.ts";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { momentOption } from "../../input/moment.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly actor?: string;
  readonly from?: string;
  readonly to?: string;
  readonly denied?: boolean;
  readonly limit?: number;
  readonly cursor?: string;
}

export function addAuditAccess(group: Command, action: ActionFactory): void {
  const command = group
    .command("access")
    .description("List the reads of content and the refused requests, newest first.")
    .argument("[task]", "only those that concern this task")
    .option("--actor <id>", "only those of this agent or person (human=NAME)")
    .option(
      "--from <time>",
      "from this time on: 2h, 7d, 2026-01-04, 2026-01-04T15:30Z (UTC if without a zone)",
    )
    .option("--to <time>", "until this time, in the same forms")
    .option("--denied", "only refused requests")
    .addOption(limitOption(LIMITS.access_log_limit_default, LIMITS.access_log_limit_max))
    .option("--cursor <cursor>", CURSOR)
    .action(action(access));
  withExamples(command, (fleet) => ({
    "The readers of a task": `${fleet} audit access auth`,
    "Refused requests of the last day": `${fleet} audit access --denied --from 24h`,
  }));
}

async function access(session: Session, task: string | undefined, flags: Flags): Promise<void> {
  const now = session.context.now();
  const range = { from: momentOption("--from", flags.from, now), to: momentOption("--to", flags.to, now) };
  const { actor, denied, limit = LIMITS.access_log_limit_default } = flags;
  const { admin } = await session.client();
  const entries: AccessPage["entries"] = [];
  let page: AccessPage;
  let { cursor } = flags;
  // A page may have few entries, or none: its blocks were read, and did not match.
  do {
    const left = limit - entries.length;
    page = await admin.accessLog.list({
      ...session.deadline,
      ...range,
      ...{ taskId: task, actor, denied, limit: left, cursor },
    });
    entries.push(...page.entries);
    ({ cursor } = page);
  } while (cursor !== undefined && entries.length < limit);
  const next = nextPage(session, page.cursor, { "--from": range.from, "--to": range.to });
  const { renderAccess } = await import("../../rendering/keys/access-log.ts");
  const shown = { ...page, entries };
  await session.show(shown, () => renderAccess({ ...shown, task, next }, session.view));
}

export async function verifyAccess(session: Session): Promise<void> {
  const { admin } = await session.client();
  const report = await admin.accessLog.verify(session.deadline);
  const { renderAccessReport } = await import("../../rendering/keys/access-log.ts");
  await session.show(report, () => renderAccessReport(report, session.view));
  if (!report.ok) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}
