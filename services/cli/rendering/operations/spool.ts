// Spools for operators, one line for each agent with waiting commands on this machine.

import type { ListedSpool } from "../../../../shared/sdk/spool/spool-list.ts";
import { tableLines } from "../terminal/table.ts";
import { bytesText, count, plain, principalText } from "../terminal/text.ts";
import { ago, brieflyAgo } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export function renderSpools(spools: readonly ListedSpool[], view: View): string {
  if (spools.length === 0) return "No commands wait on this machine.";
  const heads = ["AGENT", "TENANT", "COMMANDS", "SIZE", "OLDEST", "TASKS", "SET ASIDE"];
  const rows = spools.map(({ agentId, tenant, commands, bytes, oldestAt, tasks, aside, reasons }) => [
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
    { least: 8 },
    { leaves: 2 },
    undefined,
    { leaves: 1 },
    { brief: brieflyAgo },
    { least: 8, leaves: 3 },
    { least: 8 },
  ];
  const kept = spools.filter(({ aside }) => aside > 0).map(({ path }) => `  ${path}/aside`);
  return [
    ...tableLines(rows, { heads, view, right: [2, 3], fit }),
    ...(kept.length === 0
      ? []
      : [
          "",
          "Commands that were set aside are not sent automatically; each line states the reason:",
          ...kept,
        ]),
  ].join("\n");
}
