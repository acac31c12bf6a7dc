// What a person signs, before the signature: for the terminal and for the page in the browser.

import type { EsignStatement } from "../../../../shared/protocol/esign.ts";
import { plain } from "../terminal/text.ts";
import { signedTimeText } from "./signatures.ts";

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

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const escaped = (text: string): string => text.replace(/[&<>"']/g, (char) => ESCAPES[char]!);

const page = (title: string, body: string): string =>
  `<!doctype html><html lang="en"><meta charset="utf-8"><title>${escaped(title)}</title>` +
  "<style>body{font:16px system-ui;max-width:46rem;margin:3rem auto;padding:0 1rem}th{text-align:left;padding-right:1rem;vertical-align:top}td{word-break:break-all}</style>" +
  `<h1>${escaped(title)}</h1>${body}</html>`;

/** The page between the two logins. */
export function confirmationPage(statement: EsignStatement, url: string): string {
  const rows = facts(statement).map(
    ([name, value]) => `<tr><th>${escaped(name)}</th><td>${escaped(plain(value))}</td></tr>`,
  );
  return page(
    "Sign this checkpoint?",
    `<table>${rows.join("")}</table><p>Your signature is as binding as one by hand.</p>` +
      `<p><a href="${escaped(url)}">Log in again to sign</a></p>`,
  );
}

export const donePage = (text: string): string => page("Fleet", `<p>${escaped(text)}</p>`);
