// `fleet audit log`, `prove`, `check` and `consistent`: the proofs that third parties keep and verify without trust in
// the operator of the fleet.

import type { Command } from "commander";
import { ERROR_TABLE } from "../../../../shared/protocol/errors.ts";
import { readObject } from "../../input/document.ts";
import { trustedKeyOption } from "../../input/key-id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";

interface KeyFlags {
  readonly key?: readonly string[];
}

export function addAuditLog(group: Command, action: ActionFactory): void {
  const logCommand = group
    .command("log")
    .description("Show the newest signed checkpoint of the tenant's audit log, its size and its delay.")
    .option("-o, --out <file>", "write the checkpoint to a file, to keep it at another place")
    .action(action(log));
  withExamples(logCommand, (fleet) => ({
    "Keep a checkpoint where the operators of the fleet cannot change it": `${fleet} audit log --out checkpoint.txt`,
  }));
  const proveCommand = group
    .command("prove")
    .description(
      "Get the receipt of an audit entry: its bytes, a signed checkpoint, and the proof between them.",
    )
    .argument("[task]", "the task")
    .argument("[seq]", "the number of the entry; the newest one in the log without it", wholeNumber(1))
    .option("--tenant-chain", "an entry of `audit tenant` instead; then the number is the only argument")
    .option("-o, --out <file>", "write the receipt to a file")
    .action(action(prove));
  withExamples(proveCommand, (fleet) => ({
    "For an auditor": `${fleet} audit prove auth 1 --out receipt.json`,
    "Of an act of an operator": `${fleet} audit prove --tenant-chain 3`,
  }));
  const checkCommand = group
    .command("check")
    .description("Verify a receipt on this machine, without a fleet (exit 8: it proves nothing).")
    .argument("<file>", "the receipt")
    .addOption(trustedKeyOption())
    .action(action(check));
  withExamples(checkCommand, (fleet) => ({
    "With the key that the fleet has stated": `${fleet} audit check receipt.json --key $KEY`,
  }));
  const consistentCommand = group
    .command("consistent")
    .description(
      "Verify that the log continues a checkpoint that was kept (exit 8: the store is an older copy, or the log was written again; exit 5: a signed entry of the log states that the store was restored from a backup).",
    )
    .argument("<file>", "the kept checkpoint")
    .addOption(trustedKeyOption())
    .action(action(consistent));
  withExamples(consistentCommand, (fleet) => ({
    "In a nightly job": `${fleet} audit consistent checkpoint.txt --json > report.json`,
  }));
}

async function log(session: Session, { out }: { readonly out?: string }): Promise<void> {
  const { admin } = await session.client();
  const state = await admin.auditLog(session.deadline);
  if (out !== undefined) {
    if (state.checkpoint === null)
      throw new UsageError(
        "the log has no signed checkpoint",
        "Wait for the first entry; the services need a signing key.",
      );
    const { writePrivateFile } = await import("../../runtime/output.ts");
    await writePrivateFile(out, state.checkpoint);
  }
  const { renderAuditLog } = await import("../../rendering/keys/audit-log.ts");
  await session.show(state, () => renderAuditLog(state, session.view));
}

async function prove(
  session: Session,
  task: string | undefined,
  seq: number | undefined,
  { out, tenantChain = false }: { readonly out?: string; readonly tenantChain?: boolean },
): Promise<void> {
  const { admin } = await session.client();
  const receipt = tenantChain
    ? await admin.tenantAuditProof({ ...session.deadline, seq: soleNumber(task, seq) })
    : await admin.auditProof({ ...session.deadline, taskId: namedTask(task), seq });
  if (out !== undefined) {
    const { writePrivateFile } = await import("../../runtime/output.ts");
    await writePrivateFile(out, `${JSON.stringify(receipt, null, 2)}\n`);
  }
  const { renderAuditReceipt } = await import("../../rendering/keys/audit-log.ts");
  const { judgeReceipt } = await import("../../../../shared/transfer/audit-receipt.ts");
  const judged = judgeReceipt(receipt, []);
  await session.show(receipt, () => renderAuditReceipt(judged, false, session.view));
  if (judged.problem !== null) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}

const PROVE_HINT = "See `audit prove --help`.";

function namedTask(task: string | undefined): string {
  if (task === undefined) throw new UsageError("name a task, or --tenant-chain", PROVE_HINT);
  return task;
}

/** The first argument of a call without a task. */
function soleNumber(first: string | undefined, second: number | undefined): number | undefined {
  if (first === undefined) return undefined;
  if (second === undefined && /^[1-9]\d{0,14}$/.test(first)) return Number(first);
  throw new UsageError("--tenant-chain takes the number of an entry only", PROVE_HINT);
}

async function check(session: Session, file: string, { key = [] }: KeyFlags): Promise<void> {
  const { judgeReceipt } = await import("../../../../shared/transfer/audit-receipt.ts");
  const judged = judgeReceipt(await readObject(file, session.context.stdin), key);
  const { renderAuditReceipt } = await import("../../rendering/keys/audit-log.ts");
  const { problem, receipt, key_id, size } = judged;
  const { task_id = null, seq = null, index = null } = receipt ?? {};
  const isCompared = key.length > 0;
  // Anyone can sign a receipt with a key of their own.
  const ok = problem !== null ? false : isCompared || null;
  const report = { ok, problem, task_id, seq, index, size, key_id };
  await session.show(report, () => renderAuditReceipt(judged, isCompared, session.view));
  if (problem !== null) session.exitCode = ERROR_TABLE.CORRUPT.exit;
}

async function consistent(session: Session, file: string, { key = [] }: KeyFlags): Promise<void> {
  const [{ judgeContinuation, keptCheckpoint, keysNamed }, { beginsWith, restoreFacts, statedRestore }] =
    await Promise.all([
      import("../../../../shared/transfer/audit-receipt.ts"),
      import("../../../../shared/transfer/stated-restore.ts"),
    ]);
  const note = await textIn(file);
  const { admin } = await session.client();
  const { keys } = await admin.signingKeys(session.deadline);
  const trusted = {
    kept: keysNamed(keys, key),
    // A thief of a revoked key can sign a log of their own.
    newest: keysNamed(
      keys.filter(({ revoked_at }) => revoked_at === null),
      key,
    ),
  };
  const kept = keptCheckpoint(note, trusted.kept);
  const state = await admin.auditLog({ ...session.deadline, sinceSize: kept?.size ?? 0 });
  const problem = judgeContinuation(note, state, trusted);
  const stated = problem === null ? null : statedRestore(note, state, trusted);
  const isTrue =
    stated !== null &&
    beginsWith(stated, await admin.auditLog({ ...session.deadline, sinceSize: stated.log_size }), trusted);
  const restored = isTrue ? restoreFacts(stated) : null;
  const report = {
    ...{ ok: problem === null, problem, restored },
    ...{ kept_size: kept?.size ?? null, size: state.size },
  };
  const { renderContinuation } = await import("../../rendering/keys/audit-log.ts");
  await session.show(report, () => renderContinuation(report, session.view));
  // Not the code of an attack, and no success: an auditor asks who has restored the store, and why.
  if (problem !== null) session.exitCode = ERROR_TABLE[restored === null ? "CORRUPT" : "CONFLICT"].exit;
}

async function textIn(file: string): Promise<string> {
  const { readFile } = await import("node:fs/promises");
  return readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${file} cannot be read: ${error.code}`, "Give the file of a checkpoint.");
  });
}
