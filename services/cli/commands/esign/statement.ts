// The statement that a person signs on this machine, and its command.

import type { EsignStatement, SigningRequest } from "../../../../shared/protocol/esign.ts";
import { DEFAULT_TENANT } from "../../../../shared/protocol/ids.ts";
import type { EsignAdmin, FleetClient } from "../../../../shared/sdk/sdk.ts";
import { type SignedContent, statementLines } from "../../rendering/esign/statement.ts";
import { percentText } from "../../rendering/terminal/text.ts";
import type { Session } from "../../runtime/session.ts";
import type { SignFlags } from "./sign-flags.ts";

export interface SigningCall {
  readonly request: SigningRequest;
  readonly issuer: SigningRequest["issuers"][number];
  readonly flags: SignFlags;
  readonly content: SignedContent;
}

export async function contentOf(
  session: Session,
  subject: EsignStatement["subject"],
): Promise<SignedContent> {
  const { admin } = await session.client();
  const { goal, phase, progress_percent } = (await admin.esign.contentOf(subject, session.deadline))
    .execution_state;
  const { tenant, checkpoint_id, version } = subject;
  const of = tenant === DEFAULT_TENANT ? "" : ` --tenant ${tenant}`;
  return {
    goal,
    phase: progress_percent === undefined ? phase : `${phase}, ${percentText(progress_percent)}`,
    command: `${session.programName} checkpoint show ${checkpoint_id} --version ${version}${of}`,
  };
}

export function statementOf(
  session: Session,
  { request, issuer, flags: { meaning, reason } }: SigningCall,
  signer: EsignStatement["signer"],
): EsignStatement {
  return {
    v: 1,
    subject: request.subject,
    signer,
    meaning,
    signed_at: new Date(session.context.now()).toISOString(),
    zone: new Intl.DateTimeFormat().resolvedOptions().timeZone,
    ...(reason !== undefined && { reason }),
    policy: issuer.policy,
  };
}

/** Before the person signs: all of it for a program too, under the names of its members. */
export function showStatement(session: Session, statement: EsignStatement, content: SignedContent): void {
  session.notice(statementLines(statement, content).join("\n"), { note: "You sign:", statement, content });
}

/** Sends the signature with `add`, and shows the answer. */
export async function addStatement(
  session: Session,
  statement: EsignStatement,
  add: (client: FleetClient) => ReturnType<EsignAdmin["add"]>,
): Promise<void> {
  const answer = await add(await session.client());
  const { checkpointId: id, version, statementHash, auditSeq } = answer;
  const { meaning, signer } = statement;
  await session.show(
    { ...answer, statement },
    () =>
      `Version ${version} of checkpoint ${id} is signed: ${meaning} by ${signer.printed_name}, statement ${statementHash}, audit entry ${auditSeq}.`,
  );
}
