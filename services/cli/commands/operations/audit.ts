// `fleet audit`: the audit trail of a task or of the tenant's operators, and the proof that it is unchanged. The
// chain is recomputed on this machine from the hashed bytes, so the proof does not depend on the server.

import { type Command, Option } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { limitOption } from "../../input/limit.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextCommand } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { addAuditAccess, verifyAccess } from "./audit-access.ts";
import { addAuditAnchors } from "./audit-anchors.ts";
import { addAuditLog } from "./audit-log.ts";

interface Flags {
  readonly from?: number;
  readonly limit?: number;
}

export function addAudit(program: Command, action: ActionFactory): void {
  const group = program
    .command("audit")
    .description("Read and verify the audit trail of a task or of the operators.");
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
    .description(
      "Recompute the hash chain of a task's audit trail, or of the access log, on this machine (exit 8: it is broken).",
    )
    .argument("[task]", "the task")
    .option("--access", "the access log of the tenant instead of a task")
    .action(action(verify));
  withExamples(verifyCommand, (fleet) => ({
    "In a nightly job": `${fleet} audit verify auth --json > report.json`,
    "The log of reads and refused requests": `${fleet} audit verify --access --json > access.json`,
  }));
  const tenantCommand = group
    .command("tenant")
    .description("Show the acts of the tenant's operators, oldest first, or verify their hash chain.")
    .addOption(new Option("--from <n>", "the number of the first entry").argParser(wholeNumber(1)))
    .addOption(limitOption(LIMITS.audit_limit_default, LIMITS.audit_limit_max))
    .addOption(
      new Option("--verify", "recompute the chain on this machine (exit 8: it is broken)").conflicts([
        "from",
        "limit",
      ]),
    )
    .action(action(tenant));
  withExamples(tenantCommand, (fleet) => ({
    "The operators that acknowledged alerts, dropped dead letters or issued credentials": `${fleet} audit tenant`,
    "In a nightly job": `${fleet} audit tenant --verify --json > report.json`,
  }));
  addAuditAccess(group, action);
  addAuditLog(group, action);
  addAuditAnchors(group, action);
}

async function tenant(session: Session, flags: Flags & { readonly verify?: boolean }): Promise<void> {
  const { admin } = await session.client();
  const { renderReport } = await import("../../rendering/operations/audit.ts");
  if (flags.verify === true) {
    const report = await admin.verifyTenantAudit(session.deadline);
    await session.show(report, () => renderReport("the tenant", report, session.view));
    if (!report.ok) session.exitCode = ERROR_TABLE.CORRUPT.exit;
    return;
  }
  const page = await admin.tenantAudit({ ...session.deadline, fromSeq: flags.from, limit: flags.limit });
  const { renderTenantAudit } = await import("../../rendering/operations/tenant-audit.ts");
  const next = nextOf(session, page);
  await session.show(page, () => renderTenantAudit({ entries: page.entries, next }, session.view));
}

/** The command that shows the next page; undefined: this is the last one. */
function nextOf(
  session: Session,
  { entries, more }: { readonly entries: readonly { readonly seq: number }[]; readonly more: boolean },
): string | undefined {
  const last = entries.at(-1);
  if (!more || last === undefined) return undefined;
  const option = { option: "--from", value: String(last.seq + 1) };
  return nextCommand(session.programName, session.context.argv, option);
}

async function show(session: Session, task: string, { from, limit }: Flags): Promise<void> {
  const client = await session.client();
  const page = await client.getAudit(task, {
    ...session.deadline,
    ...(from !== undefined && { fromSeq: from }),
    ...(limit !== undefined && { limit }),
  });
  const next = nextOf(session, page);
  const { renderAudit, signedCheckpoints } = await import("../../rendering/operations/audit.ts");
  const { besideMember, signaturesOfNamed } = await import("../esign/shown-signatures.ts");
  const shown = new Set(page.entries.map(({ seq }) => seq));
  const all = await signaturesOfNamed(session, task, signedCheckpoints(page.entries));
  const signatures = all.filter(({ audit_seq }) => shown.has(audit_seq));
  await session.show({ ...page, ...besideMember(signatures) }, () =>
    renderAudit({ task, entries: page.entries, signatures, next }, session.view),
  );
}

async function verify(
  session: Session,
  id: string | undefined,
  { access = false }: { readonly access?: boolean },
): Promise<void> {
  if (access === (id !== undefined))
    throw new UsageError("name a task, or --access", "See `audit verify --help`.");
  if (id === undefined) return verifyAccess(session);
  const { requireTask } = await import("../../runtime/existing-task.ts");
  const { renderReport } = await import("../../rendering/operations/audit.ts");
  const { plain } = await import("../../rendering/terminal/text.ts");
  const { PROGRESS_END, progressLine } = await import("../../rendering/terminal/progress.ts");
  // The task holds the length of the chain, which the progress bar needs.
  const task = await requireTask(session, id);
  const client = await session.client();
  const onProgress = (done: number) =>
    session.progress(progressLine({ what: "Verifying", done, total: task.audit_seq }, session.view));
  const report = await client
    .verifyAudit(id, { ...session.deadline, onProgress })
    .finally(() => session.progress(PROGRESS_END));
  await session.show(report, () => renderReport(`task ${plain(id)}`, report, session.view));
  if (!report.ok) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}
