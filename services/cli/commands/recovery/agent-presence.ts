// Which agents of a type say that they live, and whether one of them has nothing to do.

import type { Agent } from "../../../../shared/protocol/agents.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

export interface Presence {
  readonly agent_type: string;
  /** Whether one of them waits for work; null: not known. A runner without work says nothing. */
  readonly is_free: boolean | null;
  /** Those that are not silent; who waits for work first. */
  readonly agents: readonly Agent[];
}

export const isFree = ({ state }: Agent): boolean => state === "idle";

/** Of all that the fleet hears; only a reader that has listened for long enough can say that nobody is there. */
export async function presenceOf(session: Session, client: FleetClient, type: string): Promise<Presence> {
  const { HEARD_ALL_MS } = await import("../../rendering/operations/agents.ts");
  const found: Agent[] = [];
  let listenedMs: number;
  let cursor: string | undefined;
  do {
    const page = await client.admin.agents({ ...session.deadline, limit: LIMITS.agents_limit_max, cursor });
    found.push(...page.agents.filter((one) => one.agent_type === type && one.state !== "silent"));
    listenedMs = session.context.now() - Date.parse(page.listening_since);
    // Who is never heard stands behind all who are.
    cursor = page.agents.some(({ last_beat_at }) => last_beat_at === null) ? undefined : page.cursor;
  } while (cursor !== undefined);
  const free = found.filter(isFree);
  return {
    agent_type: type,
    is_free: free.length > 0 || (listenedMs < HEARD_ALL_MS ? null : false),
    agents: [...free, ...found.filter((one) => !isFree(one))],
  };
}
