// Spools for operators, one line for each agent with waiting commands on this machine.

import type { SpoolCounts } from "../../../../shared/sdk/sdk.ts";
import type { ListedSpool } from "../../../../shared/sdk/spool/spool-list.ts";
import type { FleetState } from "../../runtime/spool-fleet.ts";
import { tableLines } from "../terminal/table.ts";
import { bytesText, count, counted, plain, principalText } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

/** `fleet`: the name of the program. */
export function renderSpools(
  spools: readonly (ListedSpool & { readonly fleetState: FleetState })[],
  fleet: string,
  view: View,
): string {
  if (spools.length === 0) return "No commands wait on this machine.";
  const heads = ["FLEET", "AGENT", "TENANT", "COMMANDS", "SIZE", "OLDEST", "TASKS", "SET ASIDE"];
  const rows = spools.map(({ note, agentId, tenant, commands, bytes, oldestAt, tasks, aside, reasons }) => [
    plain(note?.fleet ?? note?.url ?? "-"),
    principalText(agentId),
    plain(tenant),
    count(commands),
    bytesText(bytes),
    oldestAt === null ? "-" : ago(oldestAt, view.now),
    tasks.length === 0 ? "-" : tasks.map((task) => plain(task)).join(", "),
    aside === 0
      ? "-"
      : view.colors.yellow(`${count(aside)} (${reasons.map((one) => plain(one)).join(", ")})`),
  ]);
  const fit = [
    { least: 8, leaves: 3 },
    { least: 12, names: true },
    { leaves: 2 },
    undefined,
    { leaves: 1 },
    { brief: brieflyAgo },
    { least: 8, leaves: 3 },
    { least: 8 },
  ] as const;
  const kept = spools.filter(({ aside }) => aside > 0).map(({ path }) => `  ${path}/aside`);
  return [
    ...tableLines(rows, { heads, view, right: [3, 4], fit }),
    ...folderLines(spools),
    ...orphanLines(spools, fleet),
    ...(kept.length === 0
      ? []
      : [
          "",
          "Commands that were set aside are not sent automatically; each line states the reason:",
          ...kept,
          ...(spools.some(({ reasons }) => reasons.includes("sealed"))
            ? [`Name the keys of sealed ones in FLEET_SPOOL_KEY, then send them: ${fleet} spool reopen`]
            : []),
        ]),
  ].join("\n");
}

/** What was set aside while a spool was sent: at most one sentence. */
export function asideTexts(
  { aside, damaged }: Pick<SpoolCounts, "aside" | "damaged">,
  fleet: string,
): readonly string[] {
  const asides = [
    ...(aside > 0 ? [counted(aside, "command")] : []),
    ...(damaged > 0 ? [counted(damaged, "damaged line")] : []),
  ];
  return asides.length > 0 ? [`${asides.join(" and ")} set aside; \`${fleet} spool status\` says why`] : [];
}

function folderLines(spools: readonly ListedSpool[]): string[] {
  const folders = [...new Set(spools.map(({ folder }) => folder))];
  return ["", ...folders.map((folder) => `in ${plain(folder)}`)];
}

const ENDS: Readonly<Record<"replaced" | "deleted", string>> = {
  replaced: "was deleted, and another fleet is in its folder",
  deleted: "is no longer in its folder",
};

/** The commands whose fleet does not exist any more: they stay until an operator decides. */
function orphanLines(
  spools: readonly (ListedSpool & { readonly fleetState: FleetState })[],
  program: string,
): string[] {
  const ends = new Map(
    spools.flatMap(({ note, fleetState: state }) =>
      note?.fleet != null && (state === "replaced" || state === "deleted")
        ? [[note.fleet, { home: note.home ?? "", state }] as const]
        : [],
    ),
  );
  return [...ends].flatMap(([fleet, { home, state }]) => [
    "",
    `The fleet ${fleet} of ${plain(home)} ${ENDS[state]}. Its commands stay until you decide:`,
    `  ${program} spool redirect ${fleet}    # send them to the fleet of this folder`,
    `  ${program} spool drop ${fleet} --yes  # remove them`,
  ]);
}
