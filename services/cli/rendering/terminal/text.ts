// Text and numbers for operators.

import { principalLabel } from "../../../../shared/protocol/principal.ts";
import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";

/**
 * Makes an agent's text safe to show. A terminal obeys control characters, and a checkpoint must not be able to clear the
 * operator's screen or to hide a line. `lines`: keep line breaks.
 */
export function plain(text: string, { lines = false } = {}): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are removed here.
  const controls = lines ? /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g : /[\u0000-\u001f\u007f-\u009f]/g;
  return text.replace(/\r\n/g, "\n").replace(controls, (found) => (/[\n\t]/.test(found) ? " " : "\ufffd"));
}

/** The agent or person of a token, as operators read it. */
export function principalText(token: string): string {
  return plain(principalLabel(token));
}

/** The characters that change the direction of the text around them, and so what an operator believes to read. */
const DIRECTIONS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Text for a terminal, without characters that reorder it. */
export function inReadingOrder(text: string): string {
  return text.replace(DIRECTIONS, "\ufffd");
}

/** JSON in which no character can reorder or control a terminal. The values are unchanged. */
export function terminalJson(value: unknown, indent?: number): string {
  const escaped = (found: string): string => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value, null, indent)
    .replace(DIRECTIONS, escaped)
    .replace(/[\u007f-\u009f]/g, escaped);
}

/** The id as operators copy it, never shortened. */
export function shownId(id: string): string {
  return id.startsWith("chk-") ? id : `chk-${id}`;
}

export function count(value: number): string {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** "1 checkpoint", "1,200 checkpoints". */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/** "12.30 USD"; up to four decimals below one unit, because a model call costs less than a cent. */
export function moneyText(amount: number, currency = "USD"): string {
  const digits = amount.toFixed(amount > 0 && amount < 1 ? 4 : 2).replace(/(\.\d\d)0+$/, "$1");
  return `${digits.replace(/^\d+/, (whole) => count(Number(whole)))} ${currency}`;
}

export function percentText(value: number): string {
  return `${Math.round(value)}%`;
}

/** The progress: the agent's own percentage, else completed items of all items. */
export function progressText(state: Checkpoint["execution_state"]): string {
  if (state.progress_percent !== undefined) return percentText(state.progress_percent);
  const done = state.completed_items.length;
  const total = done + state.pending_items.length + state.blocked_items.length;
  return total === 0 ? "-" : `${done}/${total}`;
}

const SIZES = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const;

/** "1.5 KiB". */
export function bytesText(bytes: number): string {
  const place = bytes < 1 ? 0 : Math.min(SIZES.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** place;
  return `${place === 0 || value >= 100 ? Math.round(value) : value.toFixed(1).replace(/\.0$/, "")} ${SIZES[place]}`;
}

/** A value of any shape, in one line. */
export function short(value: unknown): string {
  return plain(typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
}

/** With a capital letter at its beginning. */
export const capitalized = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1);
