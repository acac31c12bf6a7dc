// `fleet keys`: the keys with which services sign what they commit.

import { setTimeout as sleep } from "node:timers/promises";
import { type Command, Option } from "commander";
import { ERROR_TABLE, FleetError } from "../../../../shared/protocol/errors.ts";
import {
  keyStateOf,
  REVOCATION_REASONS,
  type RevocationReason,
  type SigningKeyRecord,
} from "../../../../shared/protocol/signing-keys.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import { parseMoment } from "../../input/moment.ts";
import { revocationWarning } from "../../rendering/keys/revocation-warning.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { addEncryption } from "../keys/encryption.ts";
import { addEncryptionKey, addExportKey } from "../keys/encryption-key.ts";

const POLL_MS = 200;
/** Holders go over to the next key within seconds. After this time, or that of --timeout, one of them does not run, or cannot write its file. */
const REPLACED_WITHIN_MS = 30_000;

interface RevokeFlags {
  readonly reason?: RevocationReason;
  readonly since?: string;
}

export function addKeys(program: Command, action: ActionFactory): void {
  const group = program
    .command("keys")
    .description(
      "List, rotate and revoke the keys with which services sign what they commit; show, rotate and make keys of encryption.",
    );
  const listCommand = group
    .command("list")
    .description("List the signing keys: whose, since when, until when, and what was revoked.")
    .action(action(list));
  withExamples(listCommand, (fleet) => ({
    "All keys, also those that only verify old signatures": `${fleet} keys list`,
    "The ids to keep at another place": `${fleet} keys list --json | jq -r '.keys[].key_id'`,
  }));
  const rotateCommand = group
    .command("rotate")
    .argument("[key]", "the beginning of its id; all active keys without it")
    .summary("Replace signing keys.")
    .description(
      "Have the holders of signing keys make new ones and go over to them, while they run. Old signatures stay valid. Keys without a running holder stay as they are, and are named (exit 69).",
    )
    .option("--no-wait", "do not wait until the keys are replaced")
    .action(action(rotate));
  withExamples(rotateCommand, (fleet) => ({
    "All keys, once a year": `${fleet} keys rotate`,
    "One of them": `${fleet} keys rotate 3f9a2c`,
  }));
  const revokeCommand = group
    .command("revoke")
    .argument("<key>", "the beginning of its id")
    .summary("Revoke a signing key.")
    .description(
      "Revoke a signing key after its holder has gone over to the next one. Signatures since that time are rejected by every verification; of a key that was replaced as planned, 30 s later, so that what services with a fast clock have just committed stays valid. A second revocation may name an earlier time or a stronger reason (replaced, lost, compromised), and weakens nothing.",
    )
    .addOption(
      new Option("--reason <reason>", "why; asked for at a terminal").choices([...REVOCATION_REASONS]),
    )
    .option(
      "--since <time>",
      "the earliest suspected misuse: 2h, 2026-01-04, 2026-01-04T10:00Z (else the time of the revocation)",
    )
    .action(action(revoke));
  withExamples(revokeCommand, (fleet) => ({
    "The file of a key was copied two days ago": `${fleet} keys revoke 3f9a2c --reason compromised --since 2d`,
    "A key of a machine that is gone": `${fleet} keys revoke 3f9a2c --reason lost`,
    "A key that others cannot have": `${fleet} keys revoke 3f9a2c --reason replaced`,
    "The same key is found stolen later": `${fleet} keys revoke 3f9a2c --reason compromised`,
  }));
  addEncryption(group, action);
  addEncryptionKey(group, action);
  addExportKey(group, action);
}

async function list(session: Session): Promise<void> {
  const client = await session.client();
  await showKeys(session, await keysOf(session, client));
}

async function keysOf(session: Session, { admin }: FleetClient): Promise<readonly SigningKeyRecord[]> {
  return (await admin.signingKeys(session.deadline)).keys;
}

async function showKeys(session: Session, keys: readonly SigningKeyRecord[]): Promise<void> {
  const { renderSigningKeys } = await import("../../rendering/keys/signing-keys.ts");
  const listed = keys.map((key) => ({ ...key, state: keyStateOf(key) }));
  await session.show({ keys: listed }, () => renderSigningKeys(keys, session.view));
}

async function rotate(
  session: Session,
  start: string | undefined,
  { wait }: { readonly wait: boolean },
): Promise<void> {
  const client = await session.client();
  const keyId = start === undefined ? undefined : (await namedKey(session, client, start)).key_id;
  const requested = await client.admin.rotateKeys({ ...session.deadline, keyId });
  if (!wait) return showKeys(session, requested);
  const ids = new Set(requested.map(({ key_id }) => key_id));
  const keys = await replaced(session, client, ids);
  for (const { key_id, owner } of leftOf(keys, ids)) {
    session.exitCode = ERROR_TABLE.UNAVAILABLE.exit;
    const text = "the holder of a signing key has not replaced it, and may not run any more";
    session.warn({
      code: "key_left",
      text,
      details: { key_id, owner, next: `fleet keys revoke ${key_id} --reason lost` },
    });
  }
  await showKeys(session, keys);
}

const leftOf = (keys: readonly SigningKeyRecord[], ids: ReadonlySet<string>) =>
  keys.filter((key) => ids.has(key.key_id) && keyStateOf(key) === "active");

/** Resolves with all keys when none of these is active, or when the time is over. */
async function replaced(
  session: Session,
  client: FleetClient,
  ids: ReadonlySet<string>,
): Promise<readonly SigningKeyRecord[]> {
  const beganAt = performance.now();
  const { deadlineMs = REPLACED_WITHIN_MS } = session.deadline;
  for (;;) {
    const keys = await keysOf(session, client);
    const isOver = performance.now() - beganAt > deadlineMs;
    if (isOver || leftOf(keys, ids).length === 0) return keys;
    await sleep(POLL_MS);
  }
}

async function revoke(
  session: Session,
  start: string,
  { reason: stated, since }: RevokeFlags,
): Promise<void> {
  const at = since === undefined ? undefined : parseMoment(since, session.view.now);
  if (since !== undefined && at === undefined)
    throw new UsageError(
      `--since ${since} is not a time`,
      "Give a time such as 2h, 2026-01-04 or 2026-01-04T10:00Z.",
    );
  const client = await session.client();
  const before = await namedKey(session, client, start);
  const { key_id: keyId } = before;
  const reason = stated ?? (await askedReason(session, keyId));
  const after = await client.admin.revokeKey({ ...session.deadline, keyId, reason, since: at });
  const warning = revocationWarning({ before, after, reason });
  if (warning !== null) session.warn(warning);
  await showKeys(session, await keysOf(session, client));
}

/** A revocation is for good, and its reason decides which signatures it rejects. */
async function askedReason(session: Session, keyId: string): Promise<RevocationReason> {
  if (!session.interactive)
    throw new UsageError(
      "a revocation needs a reason, and there is no terminal to ask for it",
      `Give --reason: ${REVOCATION_REASONS.join(", ")}.`,
    );
  const { askForRevocation } = await import("../../runtime/prompts.ts");
  const reason = await askForRevocation(keyId);
  if (reason === null) throw new UsageError("nothing was revoked", "You cancelled the question.");
  return reason;
}

async function namedKey(session: Session, client: FleetClient, start: string): Promise<SigningKeyRecord> {
  const wanted = start.toLowerCase();
  const found = (await keysOf(session, client)).filter(({ key_id }) => key_id.startsWith(wanted));
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only === undefined)
    throw new FleetError("NOT_FOUND", "there is no such signing key", { details: { key_id: start } });
  throw new UsageError(`${found.length} keys begin with ${start}`, "Give more of the id.");
}
