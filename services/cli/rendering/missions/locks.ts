// The files that the agents of a mission hold, for operators.

import type { Lock, Mission } from "../../../../shared/sdk/sdk.ts";
import { tableLines } from "../terminal/table.ts";
import { counted, plain, principalText } from "../terminal/text.ts";
import { ago, exactly } from "../terminal/time.ts";
import type { View } from "../terminal/view.ts";

export function renderLocks(mission: Mission, locks: readonly Lock[], view: View): string {
  const title = `Locks of mission ${plain(mission.mission_id)}`;
  if (locks.length === 0) return `${title}\n\nNone.`;
  const heads = ["FILE", "HELD BY", "ACQUIRED", "UNTIL", "WAITING", "PURPOSE"];
  const rows = locks.map((lock) => [
    plain(lock.path),
    principalText(lock.agent_id),
    ago(lock.acquired_at, view.now),
    exactly(lock.expires_at, view.now),
    lock.waiters.map(({ agent_id }) => principalText(agent_id)).join(", ") || "-",
    plain(lock.purpose) || "-",
  ]);
  const fit = [
    { least: 12, names: true },
    undefined,
    { leaves: 1 },
    undefined,
    { leaves: 2 },
    { leaves: 3 },
  ] as const;
  return [title, "", ...tableLines(rows, { heads, view, fit }), "", counted(locks.length, "lock")].join("\n");
}
