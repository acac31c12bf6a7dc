// Signs a checkpoint: shows the statement, and sends it with the proof of the person, which is a login or a passkey.

import type { EsignStatement, SigningRequest } from "../../../../shared/protocol/esign.ts";
import { nonceOfStatement } from "../../../../shared/sdk/sdk.ts";
import { confirmationPage, donePage } from "../../rendering/esign/statement.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { type LoginNotice, openLogin } from "./browser-login.ts";
import type { SignFlags } from "./sign-flags.ts";
import { addStatement, contentOf, type SigningCall, showStatement, statementOf } from "./statement.ts";

type Issuer = SigningRequest["issuers"][number];

export async function signAsPerson(
  session: Session,
  task: string,
  checkpointId: string | undefined,
  flags: SignFlags,
): Promise<void> {
  const { admin } = await session.client();
  const { version } = flags;
  const request = await admin.esign.request({ taskId: task, checkpointId, version, ...session.deadline });
  const isWithPasskey = flags.with === "passkey";
  if (!isWithPasskey && (flags.newPasskey === true || flags.signer !== undefined))
    throw new UsageError("--signer and --new-passkey are for passkeys", "Add --with passkey.");
  const issuer = chosen(
    isWithPasskey ? acceptingPasskeys(request, flags.issuer) : request.issuers,
    flags.issuer,
  );
  const content = await contentOf(session, request.subject);
  const signing = { request, issuer, flags, content };
  if (!isWithPasskey) return signWithLogin(session, signing);
  const { signWithPasskey } = await import("./sign-passkey.ts");
  await signWithPasskey(session, signing);
}

async function signWithLogin(session: Session, signing: SigningCall): Promise<void> {
  const { issuer, flags, content } = signing;
  const notice: LoginNotice = (note, url) => session.noticeAddress(note, url);
  const login = await openLogin(issuer, { open: flags.open ?? false, notice });
  try {
    const { subject, name } = await login.identify();
    const signer = { id: { issuer: issuer.issuer, subject }, printed_name: name };
    const statement: EsignStatement = statementOf(session, signing, signer);
    showStatement(session, statement, content);
    const token = await login.stepUp(nonceOfStatement(statement), (url) => {
      // The browser continues from the page that waits for the first login.
      login.answer(confirmationPage(statement, content, url));
      notice("To sign this, log in again at:", url);
    });
    await addStatement(session, statement, ({ admin }) =>
      admin.esign.add(statement, token, session.deadline),
    );
    login.answer(donePage("It is signed. You may close this window."));
  } catch (error) {
    login.answer(donePage("It is not signed. The terminal says why."));
    throw error;
  } finally {
    await login.close();
  }
}

function acceptingPasskeys({ issuers }: SigningRequest, wanted: string | undefined): readonly Issuer[] {
  const accepting = issuers.filter(({ passkeys }) => passkeys !== undefined);
  const isWanted = ({ issuer }: Issuer) => issuer === wanted;
  const hint =
    "Sign with a login (--with login), or add `passkeys` to the identity provider in the file of FLEET_ESIGN_ISSUERS.";
  if (accepting.length === 0) throw new UsageError("the fleet accepts no passkeys", hint);
  if (issuers.some(isWanted) && !accepting.some(isWanted))
    throw new UsageError(`the fleet accepts no passkeys of the people of ${wanted}`, hint);
  return accepting;
}

function chosen(issuers: readonly Issuer[], wanted: string | undefined): Issuer {
  const [only, ...others] = issuers.filter(({ issuer }) => wanted === undefined || issuer === wanted);
  const names = issuers.map(({ issuer }) => issuer).join(", ");
  if (only === undefined)
    throw new UsageError(`the fleet does not accept ${wanted}`, `Name one of ${names}.`);
  if (others.length > 0)
    throw new UsageError("the fleet accepts several identity providers", `Name one with --issuer: ${names}.`);
  return only;
}
