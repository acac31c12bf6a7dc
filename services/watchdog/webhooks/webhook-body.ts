/**
 * The body of a webhook: a line for operators, which Slack's incoming webhooks show as it is, and the alert
 * for programs.
 */
import { alertText } from "../../../shared/protocol/alert-text.ts";
import type { ReceivedAlert } from "../../../shared/protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";

/** Limit of the description, which may quote an agent, so that the command behind it stays complete. */
const WHAT_CHARS_MAX = 1_000;

export function webhookBody(alert: ReceivedAlert): string {
  return JSON.stringify({ text: lineOf(alert), alert });
}

function lineOf(alert: ReceivedAlert): string {
  const { what, todo, command, acknowledge } = alertText(alert);
  const tenant = alert.tenant === DEFAULT_TENANT ? "" : `, tenant ${alert.tenant}`;
  const happened = what.length > WHAT_CHARS_MAX ? `${what.slice(0, WHAT_CHARS_MAX)} …` : what;
  const commands = `Begin with: ${command} (to acknowledge: ${acknowledge})`;
  return escaped(`[${alert.severity}${tenant}] ${happened} ${todo} ${commands}`);
}

/** A chat interprets angle brackets, such as a mention of a whole channel, and line breaks. */
function escaped(text: string): string {
  return text
    .replaceAll("<", "‹")
    .replaceAll(">", "›")
    .replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, " ")
    .toWellFormed();
}
