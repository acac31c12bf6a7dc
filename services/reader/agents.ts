/**
 * The query `agents`: first the agents that say that they live, by id, each with whether the store agrees that its task is its own; then
 * the owners of tasks under way that say nothing of them, by task.
 */

import type { Agent, AgentPage } from "../../shared/protocol/agents.ts";
import { invalid } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import type { QueryParams } from "../../shared/protocol/queries.ts";
import type { Task } from "../../shared/protocol/task.ts";
import { openCursor, sealCursor } from "../../shared/records/kv/cursor.ts";
import { asFleetError } from "../../shared/records/kv/store-errors.ts";
import { readHeads, readOwned } from "../../shared/records/task/task-list.ts";
import type {
  HeartbeatSubscription,
  LatestHeartbeat,
} from "../../shared/service-host/heartbeat-subscription.ts";
import type { Reader, Store } from "../../shared/store/store.ts";

/** Two beats may be lost, and one be late. */
const SILENT_MS = 3.5 * LIMITS.heartbeat_ms;

type Place = { readonly part: "heard" | "owned"; readonly after: string | null };

export interface AgentsParts {
  readonly store: Store;
  readonly heartbeats: HeartbeatSubscription;
  readonly now: () => number;
}

export type AgentsQuery = (tenant: string, query: QueryParams<"agents">) => Promise<AgentPage>;

export function createAgentsQuery({ store, heartbeats, now }: AgentsParts): AgentsQuery {
  return async (tenant, { limit, cursor }) => {
    const kind = `agents/${tenant}`;
    const place = cursor === undefined ? START : placeOf(openCursor(kind, cursor));
    const nowMs = now();
    const heard = new Map([...heartbeats.of(tenant)].filter(([, one]) => !hasEnded(one, nowMs)));
    const options = { label: "agents", deadlineMs: LIMITS.query_deadline_ms };
    const { agents, next } = await store
      .read(options, (reader) =>
        place.part === "heard"
          ? listHeard(reader, tenant, heard, { after: place.after, limit, nowMs })
          : listOwned(reader, tenant, heard, place.after, limit),
      )
      .catch((error: unknown) => {
        throw asFleetError(error);
      });
    return {
      agents,
      listening_since: new Date(heartbeats.since).toISOString(),
      ...(next !== null && { cursor: sealCursor(kind, `${next.part}/${next.after ?? ""}`) }),
    };
  };
}

const isSilent = ({ lastAt }: LatestHeartbeat, nowMs: number): boolean => nowMs - lastAt > SILENT_MS;

/** Who said goodbye has not gone silent. A task that it still owns is listed with those of which nobody says anything. */
const hasEnded = (one: LatestHeartbeat, nowMs: number): boolean =>
  one.beat.state === "stopping" && isSilent(one, nowMs);

const START: Place = { part: "heard", after: null };

function placeOf(text: string): Place {
  const [part, after = ""] = text.split("/");
  if (part !== "heard" && part !== "owned") throw invalid("cursor", "the cursor of this query's last page");
  return { part, after: after === "" ? null : after };
}

interface Slice {
  readonly agents: Agent[];
  readonly next: Place | null;
}

async function listHeard(
  reader: Reader,
  tenant: string,
  heard: ReadonlyMap<string, LatestHeartbeat>,
  { after, limit, nowMs }: { after: string | null; limit: number; nowMs: number },
): Promise<Slice> {
  const behind = [...heard].filter(([id]) => after === null || id > after);
  const page = behind.slice(0, limit);
  const tasks = page.flatMap(([, { beat }]) => beat.task_id ?? []);
  const heads = new Map((await readHeads(reader, tenant, tasks)).map((head, i) => [tasks[i], head]));
  const agents = page.map(([, one]) => heardAgent(one, heads.get(one.beat.task_id) ?? null, nowMs));
  if (behind.length > limit) return { agents, next: { part: "heard", after: page.at(-1)?.[0] ?? null } };
  const rest = await listOwned(reader, tenant, heard, null, limit - agents.length);
  return { agents: [...agents, ...rest.agents], next: rest.next };
}

async function listOwned(
  reader: Reader,
  tenant: string,
  heard: ReadonlyMap<string, LatestHeartbeat>,
  after: string | null,
  limit: number,
): Promise<Slice> {
  if (limit === 0) return { agents: [], next: { part: "owned", after } };
  const { tasks, last } = await readOwned(reader, tenant, after, LIMITS.agents_scan_max);
  const silent = tasks.filter(({ owner, task_id }) => heard.get(owner ?? "")?.beat.task_id !== task_id);
  const page = silent.slice(0, limit);
  const end = silent.length > limit ? (page.at(-1)?.task_id ?? null) : last;
  return { agents: page.map(silentAgent), next: end === null ? null : { part: "owned", after: end } };
}

function heardAgent(one: LatestHeartbeat, head: Task | null, nowMs: number): Agent {
  const { beat, firstAt, lastAt } = one;
  const { agent_id, agent_type, task_id = null, fence = null } = beat;
  return {
    agent_id,
    agent_type,
    task_id,
    fence,
    owner: task_id === null ? null : head?.owner === agent_id && (fence === null || fence === head.fence),
    state: isSilent(one, nowMs) ? "silent" : beat.state,
    step_deadline: beat.step_deadline ?? null,
    session_id: beat.session_id ?? null,
    host: beat.host ?? null,
    pid: beat.pid ?? null,
    first_beat_at: new Date(firstAt).toISOString(),
    last_beat_at: new Date(lastAt).toISOString(),
  };
}

function silentAgent(head: Task): Agent {
  return {
    agent_id: head.owner ?? "",
    // The head has the type of who wrote last, which is the owner's only when that was the owner.
    agent_type: head.agent_id === head.owner ? head.agent_type : null,
    task_id: head.task_id,
    fence: head.fence,
    owner: true,
    state: "silent",
    step_deadline: null,
    session_id: null,
    host: null,
    pid: null,
    first_beat_at: null,
    last_beat_at: null,
  };
}
