// Signs with a passkey in the browser. A person without one enrols it: a login, the new passkey, its signature, and a second login over its public key. That one
// is the last step, so that it is fresh, however long the person reads. The enrolment goes to the fleet with the first signature, so a process that dies before
// leaves nothing there.

import { createPublicKey, randomBytes } from "node:crypto";
import { FleetError } from "../../../../shared/protocol/errors.ts";
import type { EsignStatement } from "../../../../shared/protocol/esign.ts";
import type { PasskeyEnrolment } from "../../../../shared/protocol/esign-proof.ts";
import type { PasskeySummary, SignerRecord } from "../../../../shared/protocol/esign-signer.ts";
import { LOCAL_PAGES } from "../../../../shared/protocol/passkey-origin.ts";
import { nonceOfEnrolment, nonceOfStatement, type PasskeyAnswer } from "../../../../shared/sdk/sdk.ts";
import { enrolmentPage, pageBytes, signingPage } from "../../rendering/esign/passkey-pages.ts";
import { donePage } from "../../rendering/esign/statement.ts";
import type { Session } from "../../runtime/session.ts";
import { UsageError } from "../../runtime/usage.ts";
import { allSigners } from "./all-signers.ts";
import { type Login, type LoginNotice, openLogin } from "./browser-login.ts";
import { LocalPage, type PageReply } from "./local-page.ts";
import { openBrowser } from "./open-browser.ts";
import { passkeyUser } from "./passkey-user.ts";
import { addStatement, type SigningCall, showStatement, statementOf } from "./statement.ts";

/** ES256, EdDSA and RS256, in the registry of COSE. */
const ALGORITHMS = [-7, -8, -257];
const CHALLENGE_BYTES = 32;
const TIMEOUT_MS = 5 * 60_000;

/** Enrolled on this machine's pages, not revoked, of a person who is not revoked either. */
interface Usable {
  readonly signer: EsignStatement["signer"];
  readonly passkeys: readonly PasskeySummary[];
}

export async function signWithPasskey(session: Session, signing: SigningCall): Promise<void> {
  const rpId = signing.issuer.passkeys?.rp_id;
  if (rpId !== LOCAL_PAGES)
    throw new UsageError(
      `the passkeys of this fleet are for pages of ${rpId}`,
      "Sign on the page of your organisation, or sign here with a login.",
    );
  const usable = await usableOf(session, signing);
  const page = await LocalPage.open();
  try {
    if (usable === null) await enrolAndSign(session, signing, page);
    else {
      const begin = () => {
        const note = "Open this address in a browser of this machine, and sign with your passkey:";
        session.noticeAddress(note, page.url);
        if (signing.flags.open === true) openBrowser(page.url);
      };
      const signed = await signedOn(page, session, signing, { ...usable, begin });
      await send(session, signed, (text) => signed.reply({ text }));
    }
  } finally {
    await page.close();
  }
}

/** null: the person must enrol a passkey. */
async function usableOf(
  session: Session,
  { issuer, flags: { signer: wanted, newPasskey = false } }: SigningCall,
): Promise<Usable | null> {
  if (newPasskey) return null;
  const { agentId } = await session.client();
  const people = (await allSigners(session)).flatMap((signer) => {
    if (signer.issuer !== issuer.issuer || signer.revoked_at !== null) return [];
    if (wanted !== undefined && signer.subject !== wanted) return [];
    return usablePasskeys(signer, wanted === undefined ? agentId : undefined);
  });
  const [first, ...others] = people;
  if (first === undefined && wanted !== undefined)
    throw new FleetError("NOT_FOUND", "that person has no passkey; enrol one with --new-passkey", {
      details: { subject: wanted },
    });
  if (others.length > 0)
    throw new UsageError(
      "passkeys of several people were enrolled under your name",
      `Name the person with --signer: ${people.map(({ signer }) => signer.id.subject).join(", ")}.`,
    );
  return first ?? null;
}

/** `enrolledBy` undefined: by any. A signature has the name of the enrolment, so only passkeys with the newest name are used together. */
function usablePasskeys({ issuer, subject, passkeys = [] }: SignerRecord, enrolledBy?: string): Usable[] {
  const active = passkeys.filter(
    (one) =>
      one.revoked_at === null &&
      one.rp_id === LOCAL_PAGES &&
      (enrolledBy === undefined || one.enrolled_by === enrolledBy),
  );
  const name = active.at(-1)?.printed_name;
  if (name === undefined) return [];
  const signer = { id: { issuer, subject }, printed_name: name };
  return [{ signer, passkeys: active.filter(({ printed_name }) => printed_name === name) }];
}

interface SigningPassage {
  readonly signer: EsignStatement["signer"];
  readonly passkeys: readonly Pick<PasskeySummary, "credential_id">[];
  /** Leads the browser to the page. */
  readonly begin: () => void;
}

interface SignedPage {
  readonly statement: EsignStatement;
  readonly answer: PasskeyAnswer;
  /** Answers the page. */
  readonly reply: (reply: PageReply) => void;
}

/** Shows the statement, and resolves when the passkey has signed it. */
async function signedOn(
  page: LocalPage,
  session: Session,
  signing: SigningCall,
  { signer, passkeys, begin }: SigningPassage,
): Promise<SignedPage> {
  const statement = statementOf(session, signing, signer);
  showStatement(session, statement, signing.content);
  const publicKey = {
    challenge: pageBytes(nonceOfStatement(statement)),
    rpId: LOCAL_PAGES,
    allowCredentials: passkeys.map(descriptorOf),
    userVerification: "required",
    timeout: TIMEOUT_MS,
  };
  page.show(signingPage(statement, signing.content, { publicKey }));
  const answered = page.next(["credential_id", "authenticator_data", "client_data", "signature"]);
  begin();
  const { values, reply } = await answered;
  const answer = {
    ...{ credentialId: values.credential_id, authenticatorData: values.authenticator_data },
    ...{ clientData: values.client_data, signature: values.signature },
  };
  return { statement, answer, reply };
}

/** Sends the signature, and tells the person in the browser. */
async function send(
  session: Session,
  { statement, answer }: Pick<SignedPage, "statement" | "answer">,
  show: (text: string) => void,
): Promise<void> {
  try {
    await addStatement(session, statement, ({ admin }) =>
      admin.esign.addWithPasskey(statement, answer, session.deadline),
    );
  } catch (error) {
    show("It is not signed. The terminal says why.");
    throw error;
  }
  show("It is signed. You may close this window.");
}

const descriptorOf = ({ credential_id }: Pick<PasskeySummary, "credential_id">) => ({
  type: "public-key",
  id: pageBytes(credential_id),
});

async function enrolAndSign(session: Session, signing: SigningCall, page: LocalPage): Promise<void> {
  const { issuer, flags } = signing;
  const notice: LoginNotice = (note, url) => session.noticeAddress(note, url);
  const login = await openLogin(issuer, { open: flags.open ?? false, notice });
  try {
    const { subject, name } = await login.identify();
    const signer = { id: { issuer: issuer.issuer, subject }, printed_name: name };
    const { passkey, reply: answerPage } = await createdOn(page, session, { login, signer });
    const { credential_id } = passkey;
    const begin = () => answerPage({ next: page.url });
    const signed = await signedOn(page, session, signing, { signer, passkeys: [{ credential_id }], begin });
    const enrolment = await proved(session, signing, { login, signer, passkey, reply: signed.reply });
    const answer = { ...signed.answer, enrolment };
    await send(session, { ...signed, answer }, (text) => login.answer(donePage(text)));
  } catch (error) {
    login.answer(donePage("It is not signed. The terminal says why."));
    throw error;
  } finally {
    await login.close();
  }
}

type NewPasskey = PasskeyEnrolment["passkey"];

interface CreatedPasskey {
  readonly passkey: NewPasskey;
  readonly reply: (reply: PageReply) => void;
}

interface Enrolling {
  readonly login: Login;
  readonly signer: EsignStatement["signer"];
}

/** The page on which the person creates the passkey. */
async function createdOn(
  page: LocalPage,
  session: Session,
  { login, signer }: Enrolling,
): Promise<CreatedPasskey> {
  const { fleetId, tenant } = await session.client();
  const known = (await allSigners(session)).find(
    (one) => one.issuer === signer.id.issuer && one.subject === signer.id.subject,
  );
  const user = passkeyUser({ fleet: fleetId, tenant }, signer.id);
  const publicKey = creationOf(signer, user, known?.passkeys ?? []);
  page.show(enrolmentPage(signer, { publicKey }));
  const answered = page.next(["credential_id", "public_key"]);
  login.redirect(page.url);
  const { values, reply } = await answered;
  const { credential_id, public_key } = values;
  return { passkey: { credential_id, jwk: publicJwk(public_key), rp_id: LOCAL_PAGES }, reply };
}

/** The login of the person over the passkey, to which the page with the signature leads. */
async function proved(
  session: Session,
  { request, issuer }: SigningCall,
  {
    login,
    signer,
    passkey,
    reply,
  }: Enrolling & { readonly passkey: NewPasskey; readonly reply: SignedPage["reply"] },
): Promise<NonNullable<PasskeyAnswer["enrolment"]>> {
  const statement: PasskeyEnrolment = {
    ...{ v: 1, tenant: request.subject.tenant, signer, passkey },
    enrolled_at: new Date(session.context.now()).toISOString(),
    policy: issuer.policy,
  };
  const idToken = await login.stepUp(nonceOfEnrolment(statement), (url) => {
    session.noticeAddress("To prove that the passkey is yours, log in again at:", url);
    reply({ next: url });
  });
  return { statement, idToken };
}

function creationOf(
  { id, printed_name }: EsignStatement["signer"],
  user: string,
  known: readonly PasskeySummary[],
): object {
  return {
    challenge: pageBytes(randomBytes(CHALLENGE_BYTES).toString("base64url")),
    rp: { id: LOCAL_PAGES, name: "Fleet" },
    user: { id: pageBytes(user), name: id.subject, displayName: printed_name },
    pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: "public-key", alg })),
    authenticatorSelection: { userVerification: "required", residentKey: "preferred" },
    excludeCredentials: known.filter(({ revoked_at }) => revoked_at === null).map(descriptorOf),
    attestation: "none",
    timeout: TIMEOUT_MS,
  };
}

/** Browsers answer a SubjectPublicKeyInfo. */
function publicJwk(spki: string): Record<string, string> {
  try {
    const key = createPublicKey({ key: Buffer.from(spki, "base64url"), format: "der", type: "spki" });
    return key.export({ format: "jwk" }) as Record<string, string>;
  } catch (error) {
    throw new FleetError("CONFLICT", "the browser gave no public key of the passkey; use another browser", {
      cause: error,
    });
  }
}
