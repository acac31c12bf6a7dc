// What a person signs, before the signature: for the terminal and for the page in the browser.

import type { EsignStatement } from "../../../../shared/protocol/esign.ts";
import { plain } from "../terminal/text.ts";
import { escapedText, factsTable, pageHtml } from "./page.ts";
import { signedTimeText } from "./signatures.ts";

export const BINDING = "Your signature is as binding as one by hand.";

function facts({ subject, signer, meaning, signed_at, zone, reason }: EsignStatement): [string, string][] {
  return [
    ["Task", subject.task],
    ["Tenant", subject.tenant],
    ["Checkpoint", `${subject.checkpoint_id}, version ${subject.version}`],
    ["Hash", subject.hash],
    ["Audit trail", `up to entry ${subject.head.seq}, ${subject.head.hash}`],
    ["Name", `${signer.printed_name} (${signer.id.subject} of ${signer.id.issuer})`],
    ["Meaning", meaning],
    ["Time", signedTimeText(signed_at, zone)],
    ...(reason === undefined ? [] : ([["Reason", reason]] as [string, string][])),
  ];
}

export function statementLines(statement: EsignStatement): string[] {
  return ["You sign:", ...facts(statement).map(([name, value]) => `  ${name}: ${plain(value)}`)];
}

/** The statement, as rows of HTML. */
export const statementTable = (statement: EsignStatement): string =>
  factsTable(facts(statement).map(([name, value]) => [name, plain(value)] as const));

/** The page between the two logins. */
export function confirmationPage(statement: EsignStatement, url: string): string {
  return pageHtml(
    "Sign this checkpoint?",
    `${statementTable(statement)}<p>${BINDING}</p><p><a class="act" href="${escapedText(url)}">Log in again to sign</a></p>`,
  );
}

export const donePage = (text: string): string => pageHtml("Fleet", `<p>${escapedText(text)}</p>`);
