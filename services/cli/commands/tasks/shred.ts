// `fleet task shred`, `shred-approve`, `shred-cancel` and `shreds`: two persons have all content of a task removed.

import { type Command, Option } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { ShredState, TaskShred } from "../../../../shared/protocol/shred.ts";
import type { ShredStatement } from "../../../../shared/protocol/shred-certificate.ts";
import { readObject } from "../../input/document.ts";
import { revokedKeyOption, trustedKeyOption } from "../../input/key-id.ts";
import { CURSOR, limitOption } from "../../input/limit.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { nextPage } from "../../runtime/next-page.ts";
import type { Session } from "../../runtime/session.ts";
import { unissuedNames } from "./shred-persons.ts";

/** The protocol's own list comes with its schemas, which would make the help slow. */
const STATES = ["requested", "approved", "shredded"] as const;

export function addTaskShred(group: Command, action: ActionFactory): void {
  const request = group
    .command("shred")
    .summary("Request that all content of a task is removed for good.")
    .description(
      "Request that all content of a task is removed for good. Another person must approve it within 7 days. The audit trail, the signatures and the hashes stay. Copies in backups stay too, until the backups are deleted.",
    )
    .argument("<task>", "the task, which must have no owner")
    .requiredOption("--reason <code>", "such as erasure; for the audit trail")
    .option("--case <reference>", "such as the number of the request; for the audit trail")
    .action(action(requestShred));
  withExamples(request, (fleet) => ({
    "A person asked for erasure": `${fleet} task shred auth --reason erasure --case DSR-42`,
  }));
  const approve = group
    .command("shred-approve")
    .summary("Approve the removal of all content of a task.")
    .description(
      "Approve the removal of all content of a task that another person requested. It begins at once and cannot be undone; a hold stops it.",
    )
    .argument("<task>", "the task")
    .action(action(approveShred));
  withExamples(approve, (fleet) => ({ "The second person": `${fleet} task shred-approve auth` }));
  const cancel = group
    .command("shred-cancel")
    .description("Cancel the request to remove all content of a task, before its approval.")
    .argument("<task>", "the task")
    .action(action(cancelShred));
  withExamples(cancel, (fleet) => ({ "It was the wrong task": `${fleet} task shred-cancel auth` }));
  const certificate = group
    .command("shred-certificate")
    .summary("Show or write the signed certificate that a task was shredded.")
    .description(
      "Show the signed certificate that all content of a task was removed: who requested and approved it, when, and the hashes of its checkpoints.",
    )
    .argument("<task>", "the task")
    .option("-o, --out <file>", "write it to a new private file, which proves it without the fleet")
    .action(action(showCertificate));
  withExamples(certificate, (fleet) => ({
    "For the person who asked": `${fleet} task shred-certificate auth --out auth-shredded.json`,
  }));
  const verify = group
    .command("shred-verify")
    .description("Verify a certificate on this machine, without a fleet (exit 8: it proves nothing).")
    .argument("<file>", "the certificate")
    .addOption(trustedKeyOption())
    .addOption(revokedKeyOption())
    .action(action(verifyCertificate));
  withExamples(verify, (fleet) => ({
    "With the key that the fleet has stated": `${fleet} task shred-verify auth-shredded.json --key $KEY`,
  }));
  const list = group
    .command("shreds")
    .description("List the tasks whose shredding was requested, is in progress, or has ended.")
    .addOption(new Option("-s, --state <state>", "only those in this state").choices(STATES))
    .addOption(limitOption(LIMITS.holds_limit_default, LIMITS.holds_limit_max))
    .addOption(new Option("--cursor <cursor>", CURSOR))
    .action(action(shreds));
  withExamples(list, (fleet) => ({
    "What waits for a second person": `${fleet} task shreds --state requested`,
  }));
}

async function requestShred(
  session: Session,
  task: string,
  { reason, case: caseReference }: { readonly reason: string; readonly case?: string },
): Promise<void> {
  const { retention } = (await session.client()).admin;
  const answer = await retention.requestShred(task, { ...session.deadline, reason, caseReference });
  await session.show(answer, () => text(task, answer.shred));
}

async function approveShred(session: Session, task: string): Promise<void> {
  const { retention } = (await session.client()).admin;
  const answer = await retention.approveShred(task, await requestOf(session, task), session.deadline);
  const { shred } = answer;
  const unissued = shred === null ? null : ((await unissuedNames(session))?.(shred) ?? null);
  const { personsText } = await import("../../rendering/keys/shred-certificate.ts");
  await session.show({ ...answer, without_credentials: unissued }, () =>
    [text(task, shred), personsText(unissued)].join("\n"),
  );
}

async function cancelShred(session: Session, task: string): Promise<void> {
  const { retention } = (await session.client()).admin;
  const answer = await retention.cancelShred(task, await requestOf(session, task), session.deadline);
  await session.show(answer, () => text(task, answer.shred));
}

/** Without a request the first entry, so that the fleet says that there is none. */
async function requestOf(session: Session, id: string): Promise<number> {
  const { requireTask } = await import("../../runtime/existing-task.ts");
  return (await requireTask(session, id)).shred?.request_seq ?? 1;
}

async function shreds(
  session: Session,
  {
    state,
    limit,
    cursor,
  }: { readonly state?: ShredState; readonly limit?: number; readonly cursor?: string },
): Promise<void> {
  const { retention } = (await session.client()).admin;
  const page = await retention.shreds({ ...session.deadline, state, limit, cursor });
  const next = nextPage(session, page.cursor);
  const { renderShreds } = await import("../../rendering/operations/holds.ts");
  const namesOf = page.shreds.length === 0 ? null : await unissuedNames(session);
  const listed = page.shreds.map((one) => ({ ...one, without_credentials: namesOf?.(one) ?? null }));
  await session.show({ ...page, shreds: listed }, () => renderShreds({ shreds: listed, next }, session.view));
}

function text(task: string, shred: TaskShred | null): string {
  if (shred === null) return `Task ${task}: the request is cancelled`;
  return shred.state === "requested"
    ? `Task ${task}: shredding requested; another person may approve it until ${shred.expires_at}`
    : `Task ${task}: shredding approved; the content is being removed`;
}

async function showCertificate(
  session: Session,
  task: string,
  { out }: { readonly out?: string },
): Promise<void> {
  const { admin, tenant } = await session.client();
  const evidence = await admin.retention.shredCertificate(task, session.deadline);
  const { keys } = await admin.signingKeys(session.deadline);
  if (out !== undefined) {
    const { writePrivateFile } = await import("../../runtime/output.ts");
    await writePrivateFile(out, `${JSON.stringify(evidence, null, 2)}\n`);
  }
  const { judgeShred } = await import("../../../../shared/transfer/shred-evidence.ts");
  const revoked = keys.filter(({ revoked_at }) => revoked_at !== null).map(({ key_id }) => key_id);
  const found = judgeShred(evidence, { keyIds: [], revoked });
  const { statement } = found;
  const isOther = statement !== null && (statement.task !== task || statement.tenant !== tenant);
  const judged = isOther ? { ...found, problem: "it is that of another task" } : found;
  const unissued = statement === null ? null : ((await unissuedNames(session))?.(actsOf(statement)) ?? null);
  const { renderCertificate } = await import("../../rendering/keys/shred-certificate.ts");
  await session.show({ ...evidence, ...judged, without_credentials: unissued }, () =>
    renderCertificate(judged, { isCompared: false, unissued }, session.view),
  );
  if (judged.problem !== null) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}

const actsOf = ({ request, approval }: ShredStatement) => ({
  ...{ requested_by: request.by, requested_at: request.at },
  ...{ approved_by: approval.by, approved_at: approval.at },
});

async function verifyCertificate(
  session: Session,
  file: string,
  { key = [], revoked = [] }: { readonly key?: readonly string[]; readonly revoked?: readonly string[] },
): Promise<void> {
  const { judgeShred } = await import("../../../../shared/transfer/shred-evidence.ts");
  const judged = judgeShred(await readObject(file, session.context.stdin), { keyIds: key, revoked });
  const isCompared = key.length > 0;
  // Anyone can sign a certificate with a key of their own.
  const ok = judged.problem !== null ? false : isCompared || null;
  const { renderCertificate } = await import("../../rendering/keys/shred-certificate.ts");
  await session.show({ ok, ...judged }, () =>
    renderCertificate(judged, { isCompared, unissued: null }, session.view),
  );
  if (judged.problem !== null) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}
