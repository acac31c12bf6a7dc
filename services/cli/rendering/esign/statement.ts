// What a person signs, before the signature: for the terminal and for the page in the browser.

import type { EsignStatement } from "../../../../shared/protocol/esign.ts";
import { inReadingOrder, plain } from "../terminal/text.ts";
import { escapedText, factsTable, pageHtml } from "./page.ts";
import { signedTimeText } from "./signatures.ts";

export const BINDING = "Your signature is as binding as one by hand.";

/** What a hash does not say to a person. */
export interface SignedContent {
  readonly goal: string | undefined;
  readonly phase: string;
  /** The command that shows all of it. */
  readonly command: string;
}

const GOAL_CHARS_MAX = 500;

/** What the signature is of and what it means, before the hashes, which no person reads. */
function facts(
  { subject, signer, meaning, signed_at, zone, reason }: EsignStatement,
  { goal, phase, command }: SignedContent,
): (readonly [string, string])[] {
  const rows: readonly (readonly [string, string | undefined])[] = [
    ["Task", subject.task],
    ["Tenant", subject.tenant],
    ["Checkpoint", `${subject.checkpoint_id}, version ${subject.version}`],
    ["Goal", goal === undefined ? "the checkpoint states none" : briefly(goal)],
    ["Phase", phase],
    ["Full content", command],
    ["Meaning", meaning],
    ["Reason", reason],
    ["Name", `${signer.printed_name} (${signer.id.subject} of ${signer.id.issuer})`],
    ["Time", signedTimeText(signed_at, zone)],
    ["Hash", subject.hash],
    ["Audit trail", `up to entry ${subject.head.seq}, ${subject.head.hash}`],
  ];
  return rows.flatMap(([name, value]) =>
    value === undefined ? [] : [[name, inReadingOrder(plain(value))] as const],
  );
}

const briefly = (text: string): string =>
  text.length <= GOAL_CHARS_MAX ? text : `${text.slice(0, GOAL_CHARS_MAX)} … (shortened)`;

export function statementLines(statement: EsignStatement, content: SignedContent): string[] {
  return ["You sign:", ...facts(statement, content).map(([name, value]) => `  ${name}: ${value}`)];
}

/** The statement, as rows of HTML. */
export const statementTable = (statement: EsignStatement, content: SignedContent): string =>
  factsTable(facts(statement, content));

/** The page between the two logins. */
export function confirmationPage(statement: EsignStatement, content: SignedContent, url: string): string {
  return pageHtml(
    "Sign this checkpoint?",
    `${statementTable(statement, content)}<p>${BINDING}</p><p><a class="act" href="${escapedText(url)}">Log in again to sign</a></p>`,
  );
}

export const donePage = (text: string): string => pageHtml("Fleet", `<p>${escapedText(text)}</p>`);
