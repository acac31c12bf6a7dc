/**
 * The query `agents`: first the agents that send heartbeats, by id, each with whether the store confirms that
 * it owns its task; then the agents that own open tasks without heartbeats about them, by task.
 */

import type { TaskRecord } from "../../shared/lifecycle/task.ts";
import type { Agent, AgentPage } from "../../shared/protocol/agents.ts";
import { invalid } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { parsePrincipal } from "../../shared/protocol/principal.ts";
import type { QueryParams } from "../../shared/protocol/queries.ts";
import { openCursor, sealCursor } from "../../shared/records/kv/cursor.ts";
import { asFleetError } from "../../shared/records/kv/store-errors.ts";
import { readLease } from "../../shared/records/recovery/leases.ts";
import { readHeads, readOwned } from "../../shared/records/task/task-list.ts";
import type {
  HeartbeatSubscription,
  LatestHeartbeat,
} from "../../shared/service-host/heartbeat-subscription.ts";
import type { Reader, Store } from "../../shared/store/store.ts";

/** Two heartbeats may be lost and one late. */
const SILENT_MS = 3.5 * LIMITS.heartbeat_ms;

/** The position of a page: in the agents with heartbeats, by id, or in the other owners, by task. */
type PagePosition = { readonly part: "heard" | "owned"; readonly after: string | null };

export interface AgentsQueryParts {
  readonly store: Store;
  readonly heartbeats: HeartbeatSubscription;
  readonly now: () => number;
}

export type AgentsQuery = (tenant: string, query: QueryParams<"agents">) => Promise<AgentPage>;

export function createAgentsQuery({ store, heartbeats, now }: AgentsQueryParts): AgentsQuery {
  return async (tenant, { limit, cursor }) => {
    const kind = `agents/${tenant}`;
    const position = cursor === undefined ? START : positionOf(openCursor(kind, cursor));
    const nowMs = now();
    const observed = new Map([...heartbeats.of(tenant)].filter(([, one]) => !hasEnded(one, nowMs)));
    const options = { label: "agents", deadlineMs: LIMITS.query_deadline_ms };
    const { agents, next } = await store
      .read(options, (reader) =>
        position.part === "heard"
          ? listObserved(reader, tenant, observed, { after: position.after, limit, nowMs })
          : listOwned(reader, tenant, observed, position.after, limit),
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

/** An agent that announced its end is not silent. A task that it still owns is listed by task. */
const hasEnded = (one: LatestHeartbeat, nowMs: number): boolean =>
  one.beat.state === "stopping" && isSilent(one, nowMs);

const START: PagePosition = { part: "heard", after: null };

function positionOf(text: string): PagePosition {
  const [part, after = ""] = text.split("/");
  if (part !== "heard" && part !== "owned") throw invalid("cursor", "the cursor of this query's last page");
  return { part, after: after === "" ? null : after };
}

interface Slice {
  readonly agents: Agent[];
  readonly next: PagePosition | null;
}

async function listObserved(
  reader: Reader,
  tenant: string,
  observed: ReadonlyMap<string, LatestHeartbeat>,
  { after, limit, nowMs }: { after: string | null; limit: number; nowMs: number },
): Promise<Slice> {
  const behind = [...observed].filter(([id]) => after === null || id > after);
  const page = behind.slice(0, limit);
  const tasks = page.flatMap(([, { beat }]) => beat.task_id ?? []);
  const heads = new Map((await readHeads(reader, tenant, tasks)).map((head, i) => [tasks[i], head]));
  const agents = page.map(([, one]) => observedAgent(one, heads.get(one.beat.task_id) ?? null, nowMs));
  if (behind.length > limit) return { agents, next: { part: "heard", after: page.at(-1)?.[0] ?? null } };
  const rest = await listOwned(reader, tenant, observed, null, limit - agents.length);
  return { agents: [...agents, ...rest.agents], next: rest.next };
}

async function listOwned(
  reader: Reader,
  tenant: string,
  observed: ReadonlyMap<string, LatestHeartbeat>,
  after: string | null,
  limit: number,
): Promise<Slice> {
  if (limit === 0) return { agents: [], next: { part: "owned", after } };
  const { tasks, last } = await readOwned(reader, tenant, after, LIMITS.agents_scan_max);
  const unheard = tasks.filter(
    ({ owner, task_id }) => !isPerson(owner) && observed.get(owner ?? "")?.beat.task_id !== task_id,
  );
  const page = unheard.slice(0, limit);
  const end = unheard.length > limit ? (page.at(-1)?.task_id ?? null) : last;
  const leases = await Promise.all(
    page.map(({ task_id: task, fence }) => readLease(reader, { tenant, task, fence })),
  );
  const agents = page.map((head, i) => unheardAgent(head, leases[i] === null ? "unmonitored" : "silent"));
  return { agents, next: end === null ? null : { part: "owned", after: end } };
}

/** People own tasks too, but they send no heartbeats. */
const isPerson = (owner: string | null): boolean => owner !== null && parsePrincipal(owner)?.kind === "human";

function observedAgent(one: LatestHeartbeat, head: TaskRecord | null, nowMs: number): Agent {
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

function unheardAgent(head: TaskRecord, state: "silent" | "unmonitored"): Agent {
  return {
    agent_id: head.owner ?? "",
    // The head has the type of the last writing agent, which may not be the owner.
    agent_type: head.agent_id === head.owner ? head.agent_type : null,
    task_id: head.task_id,
    fence: head.fence,
    owner: true,
    state,
    step_deadline: null,
    session_id: null,
    host: null,
    pid: null,
    first_beat_at: null,
    last_beat_at: null,
  };
}
