// `fleet audit`: the audit trail of a task, and the proof that it is unchanged. The chain is recomputed on this machine
// from the hashed bytes, so the proof does not depend on the server.

import { type Command, Option } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { limitOption } from "../../input/limit.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextCommand } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";

interface Flags {
  readonly from?: number;
  readonly limit?: number;
}

export function addAudit(program: Command, action: ActionFactory): void {
  const group = program.command("audit").description("Read and verify a task's audit trail.");
  const showCommand = group
    .command("show")
    .description("Show the entries of a task's audit trail, oldest first.")
    .argument("<task>", "the task")
    .addOption(new Option("--from <n>", "the number of the first entry").argParser(wholeNumber(1)))
    .addOption(limitOption(LIMITS.audit_limit_default, LIMITS.audit_limit_max))
    .action(action(show));
  withExamples(showCommand, (fleet) => ({ "From the tenth entry on": `${fleet} audit show auth --from 10` }));
  const verifyCommand = group
    .command("verify")
    .description("Recompute the hash chain of a task's audit trail on this machine (exit 8: it is broken).")
    .argument("<task>", "the task")
    .action(action(verify));
  withExamples(verifyCommand, (fleet) => ({
    "In a nightly job": `${fleet} audit verify auth --json > report.json`,
  }));
}

async function show(session: Session, task: string, { from, limit }: Flags): Promise<void> {
  const client = await session.client();
  const page = await client.getAudit(task, {
    ...session.deadline,
    ...(from !== undefined && { fromSeq: from }),
    ...(limit !== undefined && { limit }),
  });
  const last = page.entries.at(-1);
  const next =
    page.more && last !== undefined
      ? nextCommand(session.programName, session.context.argv, {
          option: "--from",
          value: String(last.seq + 1),
        })
      : undefined;
  const { renderAudit } = await import("../../rendering/operations/audit.ts");
  await session.show(page, () => renderAudit({ task, entries: page.entries, next }, session.view));
}

async function verify(session: Session, id: string): Promise<void> {
  const { requireTask } = await import("../../runtime/existing-task.ts");
  const { renderReport } = await import("../../rendering/operations/audit.ts");
  const { PROGRESS_END, progressLine } = await import("../../rendering/terminal/progress.ts");
  // The task holds the length of the chain, which the progress bar needs.
  const task = await requireTask(session, id);
  const client = await session.client();
  const onProgress = (done: number) =>
    session.progress(progressLine({ what: "Verifying", done, total: task.audit_seq }, session.view));
  const report = await client
    .verifyAudit(id, { ...session.deadline, onProgress })
    .finally(() => session.progress(PROGRESS_END));
  await session.show(report, () => renderReport(id, report, session.view));
  if (!report.ok) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}
