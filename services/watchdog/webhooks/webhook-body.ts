/** What is posted: a line for people, which Slack's incoming webhooks show as it is, and the alert for programs. */
import { alertText } from "../../../shared/protocol/alert-text.ts";
import type { ReceivedAlert } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";

/** Of what happened: whatever an agent has written into it ends somewhere, and the command behind it stays whole. */
const WHAT_CHARS = 1_000;

export function webhookBody(alert: ReceivedAlert): string {
  return JSON.stringify({ text: lineOf(alert), alert });
}

function lineOf(alert: ReceivedAlert): string {
  const { what, todo, command, acknowledge } = alertText(alert);
  const tenant = alert.tenant === DEFAULT_TENANT ? "" : `, tenant ${alert.tenant}`;
  const happened = what.length > WHAT_CHARS ? `${what.slice(0, WHAT_CHARS)} …` : what;
  const line = `[${alert.severity}${tenant}] ${happened} ${todo} Begin with: ${command} (when you know of it: ${acknowledge})`;
  return harmless(line);
}

/** A chat obeys what stands in angle brackets, such as a call of everybody, and breaks lines where it is told to. */
function harmless(text: string): string {
  return text
    .replaceAll("<", "‹")
    .replaceAll(">", "›")
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, " ")
    .toWellFormed();
}
