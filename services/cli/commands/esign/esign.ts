// `fleet sign`, `fleet signatures` and `fleet signers`: electronic signatures of people.

import { type Command, Option } from "commander";
import { ERROR_TABLE, FleetError } from "../../../../shared/protocol/errors.ts";
import { ESIGN_MEANINGS } from "../../../../shared/protocol/esign.ts";
import {
  SIGNER_REVOCATIONS,
  type SignerRecord,
  type SignerRevocation,
} from "../../../../shared/protocol/esign-signer.ts";
import { checkpointId } from "../../input/id.ts";
import { wholeNumber } from "../../input/number.ts";
import { type ActionFactory, withExamples } from "../../runtime/action.ts";
import { requireTask } from "../../runtime/existing-task.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { allSigners } from "./all-signers.ts";
import type { SignFlags, VersionFlags } from "./sign-flags.ts";

const versionOption = (description: string) =>
  new Option("--version <n>", description).argParser(wholeNumber(1));

export function addSign(program: Command, action: ActionFactory): void {
  const command = program
    .command("sign")
    .summary("Sign a checkpoint electronically, as a person.")
    .description(
      "Sign one version of a checkpoint as a person (21 CFR Part 11). Prints an address for your browser. With a login, you log in there twice: to say who you are, and to sign exactly what is shown. With a passkey or a security key, you log in only when you enrol it, which the first signature does. No agent, operator or API key can do this for you: under the name of an agent (--agent, FLEET_AGENT_ID) it is refused before any login. So is a person without the right to sign (exit 77).",
    )
    .argument("<task>", "the task")
    .argument("[checkpoint]", "the checkpoint (else the newest one)", checkpointId)
    .addOption(versionOption("an earlier version of the checkpoint (else the current one)"))
    .addOption(
      new Option("--meaning <meaning>", "what the signature means")
        .choices([...ESIGN_MEANINGS])
        .makeOptionMandatory(),
    )
    .option("--reason <text>", "why, as part of what is signed")
    .addOption(new Option("--with <method>", "how you sign").choices(["login", "passkey"]).default("login"))
    .option("--issuer <url>", "the identity provider, if the fleet accepts several")
    .option("--signer <subject>", "the person with the passkey: the `sub` of the identity provider")
    .option("--new-passkey", "enrol another passkey, and sign with it")
    .option("--open", "open the address in the browser of this machine")
    .action(action(sign));
  withExamples(command, (fleet) => ({
    "Approve the newest checkpoint": `${fleet} sign auth --meaning approval`,
    "Approve it with a passkey": `${fleet} sign auth --meaning approval --with passkey`,
    "Review an earlier version": `${fleet} sign auth chk-0199… --version 1 --meaning review --reason "Checked against the plan"`,
  }));
}

export function addSignatures(program: Command, action: ActionFactory): void {
  const command = program
    .command("signatures")
    .summary("List and verify the electronic signatures of a task.")
    .description(
      "List the electronic signatures of a task, or of one checkpoint, and verify each on this machine: its statement, the token or the passkey of the person, the audit entry and the content of the version (exit 8: one does not verify).",
    )
    .argument("<task>", "the task")
    .argument("[checkpoint]", "only of this checkpoint", checkpointId)
    .addOption(versionOption("only of this version of the checkpoint (else of all)"))
    .action(action(signatures));
  withExamples(command, (fleet) => ({
    "All of a task": `${fleet} signatures auth`,
    "The approvals, in a script": `${fleet} signatures auth --json | jq '.signatures[] | select(.meaning == "approval")'`,
  }));
}

export function addSigners(program: Command, action: ActionFactory): void {
  const group = program
    .command("signers")
    .description("List and revoke the people who sign electronically, and their passkeys.");
  const listCommand = group
    .command("list")
    .description("List the people who have signed, with their passkeys, and those who were revoked.")
    .action(action(list));
  withExamples(listCommand, (fleet) => ({ "With their ids": `${fleet} signers list --json` }));
  const revokeCommand = group
    .command("revoke")
    .argument("<subject>", "the person: the `sub` of the identity provider")
    .summary("Refuse later signatures of a person.")
    .description("Refuse later signatures of a person, for good. Earlier ones stay valid.")
    .addOption(new Option("--reason <reason>", "why").choices([...SIGNER_REVOCATIONS]).makeOptionMandatory())
    .option("--issuer <url>", "the identity provider, if the person has not signed yet")
    .action(action(revoke));
  withExamples(revokeCommand, (fleet) => ({
    "A person has left": `${fleet} signers revoke 248289761001 --reason left`,
  }));
  const passkeyCommand = group
    .command("revoke-passkey")
    .argument("<passkey>", "its id, as `signers list --json` prints it")
    .summary("Refuse later signatures with a passkey.")
    .description(
      "Refuse later signatures with one passkey, for good. Earlier ones stay valid, and so do the person's other passkeys.",
    )
    .addOption(new Option("--reason <reason>", "why").choices([...SIGNER_REVOCATIONS]).makeOptionMandatory())
    .action(action(revokePasskey));
  withExamples(passkeyCommand, (fleet) => ({
    "A security key is lost": `${fleet} signers revoke-passkey 9f86d081… --reason lost`,
  }));
}

async function sign(session: Session, task: string, id: string | undefined, flags: SignFlags): Promise<void> {
  await requirePerson(session);
  await requireTask(session, task);
  const { signAsPerson } = await import("./sign.ts");
  await signAsPerson(session, task, id, flags);
}

/** The fleet refuses the signature of an agent, but only after the logins of the person. */
async function requirePerson(session: Session): Promise<void> {
  const { agentId } = await session.client();
  const { parsePrincipal } = await import("../../../../shared/protocol/principal.ts");
  if (parsePrincipal(agentId)?.kind === "human") return;
  throw new UsageError(
    `${agentId} is no person, and only a person may sign`,
    "Give --person NAME, which is also needed where FLEET_AGENT_ID is set; or use the credentials of a person.",
  );
}

async function signatures(
  session: Session,
  task: string,
  checkpoint: string | undefined,
  { version }: VersionFlags,
): Promise<void> {
  await requireTask(session, task);
  const { admin } = await session.client();
  const asked = { checkpointId: checkpoint, version, content: true, ...session.deadline };
  const found = await admin.esign.list(task, asked);
  if (found.some(({ state }) => state !== "valid")) session.exitCode = ERROR_TABLE.CORRUPT.exit;
  const { renderSignatures } = await import("../../rendering/esign/signatures.ts");
  await session.show({ signatures: found }, () => renderSignatures(task, found, session.view));
}

async function list(session: Session): Promise<void> {
  await showSigners(session, await allSigners(session));
}

async function showSigners(session: Session, signers: readonly SignerRecord[]): Promise<void> {
  const { renderSigners } = await import("../../rendering/esign/signatures.ts");
  await session.show({ signers }, () => renderSigners(signers, session.view));
}

async function revoke(
  session: Session,
  subject: string,
  { reason, issuer }: { readonly reason: SignerRevocation; readonly issuer?: string },
): Promise<void> {
  const of = issuer ?? (await issuerOf(session, subject));
  const { admin } = await session.client();
  await admin.esign.revokeSigner({ issuer: of, subject, reason, ...session.deadline });
  await showSigners(session, await allSigners(session));
}

async function revokePasskey(
  session: Session,
  passkeyId: string,
  { reason }: { readonly reason: SignerRevocation },
): Promise<void> {
  const { admin } = await session.client();
  await admin.esign.revokePasskey({ passkeyId, reason, ...session.deadline });
  await showSigners(session, await allSigners(session));
}

async function issuerOf(session: Session, subject: string): Promise<string> {
  const [only, ...others] = (await allSigners(session)).filter((one) => one.subject === subject);
  if (only === undefined)
    throw new FleetError("NOT_FOUND", "no such person has signed; name the issuer with --issuer", {
      details: { subject },
    });
  if (others.length > 0)
    throw new UsageError(`several providers have a subject ${subject}`, "Name the one with --issuer.");
  return only.issuer;
}
