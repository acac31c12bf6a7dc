// The pages on which a person enrols a passkey, and signs with it. The options of the browser's call are data of the page; its script has no text of others.

import type { EsignStatement } from "../../../../shared/protocol/esign.ts";
import { factsTable, pageHtml } from "./page.ts";
import { BINDING, type SignedContent, statementTable } from "./statement.ts";

/** In the script of the page, values that begin with `b64:` are bytes. */
export const pageBytes = (base64Url: string): string => `b64:${base64Url}`;

/** `nonce`: of the policy that permits the script. */
export type PasskeyPageText = (nonce: string) => string;

export interface PasskeyOptions {
  /** Of `navigator.credentials.create` or `get`. */
  readonly publicKey: object;
}

export function signingPage(
  statement: EsignStatement,
  content: SignedContent,
  options: PasskeyOptions,
): PasskeyPageText {
  const body = `${statementTable(statement, content)}<p>${BINDING}</p>`;
  return (nonce) =>
    pageHtml(
      "Sign this checkpoint?",
      body + act({ call: "get", button: "Sign with your passkey", options, nonce }),
    );
}

export function enrolmentPage(
  { printed_name, id }: EsignStatement["signer"],
  options: PasskeyOptions,
): PasskeyPageText {
  const body =
    "<p>You have no passkey for signatures yet, or want another one. Use a passkey of this device, or a security key. It must ask you for a PIN, a fingerprint or your face.</p>" +
    factsTable([
      ["Name", printed_name],
      ["Person", `${id.subject} of ${id.issuer}`],
    ]) +
    "<p>Then you see what you sign. After you have signed, you log in once more, so that the passkey is proved to be yours.</p>";
  return (nonce) =>
    pageHtml(
      "Enrol a passkey for signatures",
      body + act({ call: "create", button: "Create the passkey", options, nonce }),
    );
}

interface Act {
  readonly call: "create" | "get";
  readonly button: string;
  readonly options: PasskeyOptions;
  readonly nonce: string;
}

function act({ call, button, options, nonce }: Act): string {
  const data = JSON.stringify({ call, options }).replaceAll("<", "\\u003c");
  return (
    `<p><button id="act" type="button">${button}</button></p><p id="state" role="status" aria-live="polite"></p>` +
    "<noscript><p>Signing with a passkey needs JavaScript.</p></noscript>" +
    `<script type="application/json" id="data">${data}</script><script nonce="${nonce}">${SCRIPT}</script>`
  );
}

const SCRIPT = `
"use strict";
const button = document.getElementById("act");
const state = document.getElementById("state");
const { call, options } = JSON.parse(document.getElementById("data").textContent);
const bytesOf = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
const textOf = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\\+/g, "-").replace(/\\//g, "_").replace(/=/g, "");
const withBytes = (value) => {
  if (typeof value === "string") return value.startsWith("b64:") ? bytesOf(value.slice(4)) : value;
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withBytes);
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, withBytes(member)]));
};
const PROBLEMS = {
  NotAllowedError: "The passkey did not answer: it was cancelled, took too long, or is not on this device. Try again.",
  InvalidStateError: "This authenticator has a passkey of yours already. Use another one, or sign without --new-passkey.",
  NotSupportedError: "This authenticator has no key of a kind that the fleet accepts.",
};
const answerOf = ({ rawId, response }) => call === "create"
  ? { credential_id: textOf(rawId), public_key: textOf(response.getPublicKey() ?? new ArrayBuffer(0)) }
  : { credential_id: textOf(rawId), authenticator_data: textOf(response.authenticatorData), client_data: textOf(response.clientDataJSON), signature: textOf(response.signature) };
async function act() {
  button.disabled = true;
  state.textContent = "Waiting for your passkey.";
  let credential;
  try {
    credential = await navigator.credentials[call](withBytes(options));
  } catch (error) {
    state.textContent = PROBLEMS[error.name] ?? "The browser refused the passkey: " + error.name + ".";
    button.disabled = false;
    return;
  }
  state.textContent = "Waiting for the fleet.";
  try {
    const sent = await fetch(location.href, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(answerOf(credential)) });
    const { next, text } = await sent.json();
    if (next) location.assign(next);
    else state.textContent = text;
  } catch {
    state.textContent = "The program that asked you to sign has ended. The terminal says whether it is signed.";
  }
}
if (window.PublicKeyCredential) button.addEventListener("click", act);
else {
  button.disabled = true;
  state.textContent = "This browser has no passkeys. Open the address in another one.";
}
`;
