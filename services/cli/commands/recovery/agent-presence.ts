// The agents of one type that send heartbeats, and whether one of them is free.

import type { Agent } from "../../../../shared/protocol/agents.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import type { FleetClient } from "../../../../shared/sdk/sdk.ts";
import type { Session } from "../../runtime/session.ts";

export interface Presence {
  readonly agent_type: string;
  /** Whether one of them waits for work; null: unknown. A runner without work sends no heartbeats. */
  readonly is_free: boolean | null;
  /** The agents that are not silent, the free ones first. */
  readonly agents: readonly Agent[];
}

export const isFree = ({ state }: Agent): boolean => state === "idle";

/** Reads all agents. Only a reader that has listened for long enough can report that there is none. */
export async function presenceOf(session: Session, client: FleetClient, type: string): Promise<Presence> {
  const { FULL_LISTENING_MS } = await import("../../rendering/operations/agents.ts");
  const found: Agent[] = [];
  let listenedMs: number;
  let cursor: string | undefined;
  do {
    const page = await client.admin.agents({ ...session.deadline, limit: LIMITS.agents_limit_max, cursor });
    found.push(
      ...page.agents.filter(
        (one) => one.agent_type === type && one.last_beat_at !== null && one.state !== "silent",
      ),
    );
    listenedMs = session.context.now() - Date.parse(page.listening_since);
    // Agents without heartbeats are listed last, so all others have been read.
    cursor = page.agents.some(({ last_beat_at }) => last_beat_at === null) ? undefined : page.cursor;
  } while (cursor !== undefined);
  const free = found.filter(isFree);
  return {
    agent_type: type,
    is_free: free.length > 0 || (listenedMs < FULL_LISTENING_MS ? null : false),
    agents: [...free, ...found.filter((one) => !isFree(one))],
  };
}
