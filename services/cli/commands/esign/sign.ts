// Signs a checkpoint: shows the statement, and sends it with the token that the person's identity provider signs over it.

import type { EsignStatement, SigningRequest } from "../../../../shared/protocol/esign.ts";
import { nonceOfStatement } from "../../../../shared/sdk/sdk.ts";
import { confirmationPage, donePage, statementLines } from "../../rendering/esign/statement.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { openLogin } from "./browser-login.ts";
import type { SignFlags } from "./sign-flags.ts";

type Issuer = SigningRequest["issuers"][number];

export async function signAsPerson(
  session: Session,
  task: string,
  checkpointId: string | undefined,
  { version, meaning, reason, issuer: wanted, open = false }: SignFlags,
): Promise<void> {
  const { admin } = await session.client();
  const request = await admin.esign.request({ taskId: task, checkpointId, version, ...session.deadline });
  const issuer = chosen(request, wanted);
  const login = await openLogin(issuer, { open, notice: (text) => session.notice(text) });
  try {
    const person = await login.identify();
    const statement: EsignStatement = {
      v: 1,
      subject: request.subject,
      signer: { id: { issuer: issuer.issuer, subject: person.subject }, printed_name: person.name },
      meaning,
      signed_at: new Date(session.context.now()).toISOString(),
      zone: new Intl.DateTimeFormat().resolvedOptions().timeZone,
      ...(reason !== undefined && { reason }),
      policy: issuer.policy,
    };
    for (const line of statementLines(statement)) session.notice(line);
    const nonce = nonceOfStatement(statement);
    const token = await login.stepUp(nonce, (url) => confirmationPage(statement, url));
    const answer = await admin.esign.add(statement, token, session.deadline);
    login.end(donePage("It is signed. You may close this window."));
    const { checkpointId: id, version: signed, statementHash, auditSeq } = answer;
    await session.show(
      { ...answer, statement },
      () =>
        `Version ${signed} of checkpoint ${id} is signed: ${meaning} by ${person.name}, statement ${statementHash}, audit entry ${auditSeq}.`,
    );
  } catch (error) {
    login.end(donePage("It is not signed. The terminal says why."));
    throw error;
  } finally {
    await login.close();
  }
}

function chosen({ issuers }: SigningRequest, wanted: string | undefined): Issuer {
  const [only, ...others] = issuers.filter(({ issuer }) => wanted === undefined || issuer === wanted);
  const names = issuers.map(({ issuer }) => issuer).join(", ");
  if (only === undefined)
    throw new UsageError(`the fleet does not accept ${wanted}`, `Name one of ${names}.`);
  if (others.length > 0)
    throw new UsageError("the fleet accepts several identity providers", `Name one with --issuer: ${names}.`);
  return only;
}
