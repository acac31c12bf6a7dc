// The snapshot of a mission inside a checkpoint: sorties, locks, messages. Orchestrators of many kinds write them, so a
// row shows the fields that it finds.

import type { Checkpoint } from "../../../../shared/sdk/sdk.ts";
import { tableLines } from "../terminal/table.ts";
import { capitalized, plain, short } from "../terminal/text.ts";
import { ago } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

type Mission = NonNullable<Checkpoint["fleet"]>;
const INDENT = 2;
/** The first columns name the subject; the others can be read with --json. */
const FIT = [{ least: 12 }, { least: 8 }, { least: 8 }, { least: 12 }] as const;

type Part = Readonly<Record<string, unknown>>;

export function renderMission(mission: Mission, view: View): string[] {
  const { colors, now } = view;
  const since = (at: unknown) => (typeof at === "string" ? `acquired ${ago(at, now)}` : "");
  const sorties = mission.sorties.map((one: Part) => [
    first(one, "id"),
    first(one, "status"),
    first(one, "assigned_to", "agent_id"),
    first(one, "file", "files", "title"),
  ]);
  const locks = mission.active_locks.map((one: Part) => [
    first(one, "file", "path", "id"),
    first(one, "held_by", "agent_id"),
    since(one.acquired_at),
  ]);
  const messages = mission.pending_messages.map((one: Part) => [
    `From: ${first(one, "from")}`,
    `To: ${[one.to].flat().map(short).join(", ")}`,
    `Subject: ${first(one, "subject", "id")}`,
    ...(one.failed === true ? ["failed"] : []),
  ]);
  const part = (name: string, rows: string[][]) =>
    rows.length === 0
      ? []
      : [
          "",
          colors.dim(`${name} (${rows.length}):`),
          ...tableLines(rows, { view, fit: FIT, indent: INDENT }).map((line) => " ".repeat(INDENT) + line),
        ];
  return [
    "",
    `${colors.dim("Mission:")} ${plain(mission.mission_id)}`,
    ...part("Sorties", sorties),
    ...part("Active Locks", locks),
    ...part("Pending Messages", messages),
    ...recoveryContext(mission.recovery_context, view),
  ];
}

/** In the order and the form of seed 002. */
const CONTEXT = ["last_action", "next_steps", "blockers", "files_modified"] as const;

function recoveryContext(context: Part | undefined, { colors }: View): string[] {
  if (context === undefined) return [];
  const others = Object.keys(context).filter((name) => !(CONTEXT as readonly string[]).includes(name));
  const lines = [...CONTEXT.filter((name) => name in context), ...others].flatMap((name) =>
    contextLines(name, context[name]),
  );
  return ["", colors.dim("Recovery Context:"), ...lines];
}

function contextLines(name: string, value: unknown): string[] {
  const title = plain(name.split("_").map(capitalized).join(" "));
  if (!Array.isArray(value)) return [`  ${title}: ${short(value)}`];
  const texts = value.map(short);
  return name === "next_steps" && texts.length > 0
    ? [`  ${title}:`, ...texts.map((text) => `    - ${text}`)]
    : [`  ${title}: ${texts.join(", ") || "None"}`];
}

function first(part: Part, ...names: readonly string[]): string {
  const found = names.map((name) => part[name]).find((value) => value !== undefined && value !== null);
  return found === undefined ? "-" : Array.isArray(found) ? found.map(short).join(", ") : short(found);
}
