/**
 * Content of a task among rows that are not of the task: offers that wait in the outbox, and the sessions of agents, with their prompts. There may be any
 * number of them, and of other offers between them, so they are read in pages, each in a transaction of its own.
 */
import { isHeld } from "../../../lifecycle/retention/hold-rules.ts";
import type { AgentSession } from "../../../protocol/turns.ts";
import type { Bytes, KeyRange, KeyValue, Store, Tx } from "../../../store/store.ts";
import { decodeChecked, readable } from "../../kv/codec.ts";
import { elementsOf } from "../../kv/key-elements.ts";
import { after, systemKeys, tenantKeys } from "../../kv/keyspace.ts";
import { isOffer, outboxEntry, partitionOf } from "../../outbox/outbox.ts";
import { forgetSession } from "../../session/sessions.ts";
import { readNewestHead } from "../../task/command-transaction.ts";

const PAGE = 500;
const NOTHING = new Uint8Array(0);
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe", label: "shred_leftovers" } as const;

interface LeftoverPlace {
  readonly store: Store;
  readonly guard: (tx: Tx) => Promise<void>;
  readonly tenant: string;
  readonly task: string;
  readonly step: LeftoverStep;
}

/** What the tasks of one step of the sweep share. All were approved before it, and events after an approval bring no content of the task. */
export interface LeftoverStep {
  readonly tasks: readonly { readonly tenant: string; readonly task: string }[];
  /** The tenants whose sessions this step has looked through. */
  readonly indexed: Set<string>;
}

/** False: the task has come to be held, or is no longer approved. */
export async function clearLeftovers(place: LeftoverPlace): Promise<boolean> {
  const { tenant, task } = place;
  const outbox = systemKeys.outboxRange(partitionOf(tenant, task));
  const isCleared = await eachIn(place, outbox, async (tx, { key, value }) => {
    // A damaged one, which the relay reports, must not keep the tasks of the partition.
    const entry = readable(() => outboxEntry(key, value));
    if (entry !== null && isOffer(entry) && entry.event.tenant === tenant && entry.event.data.taskId === task)
      tx.clear(key);
  });
  return isCleared && (await indexSessions(place)) && clearSessions(place);
}

/**
 * Sessions that an earlier version has written are not in the index of tasks, and a service of such a version may run until an upgrade ends. So each
 * step looks through all sessions of a tenant once, after the approval of its tasks.
 */
async function indexSessions(place: LeftoverPlace): Promise<boolean> {
  const { tenant, step } = place;
  if (step.indexed.has(tenant)) return true;
  const tasks = new Set(step.tasks.flatMap((one) => (one.tenant === tenant ? [one.task] : [])));
  const keys = tenantKeys(tenant);
  const isIndexed = await eachIn(place, keys.sessions(), async (tx, { value }) => {
    // An event may move the session to another task meanwhile, and writes its own row. This one then leads to no session of the task.
    const session = sessionIn(value);
    if (session?.task_id != null && tasks.has(session.task_id))
      tx.set(keys.taskSession(session.task_id, session.agent_id, session.session_id), NOTHING);
  });
  if (isIndexed) step.indexed.add(tenant);
  return isIndexed;
}

function clearSessions(place: LeftoverPlace): Promise<boolean> {
  const { tenant, task } = place;
  const keys = tenantKeys(tenant);
  return eachIn(place, keys.taskSessions(task), async (tx, { key }) => {
    const [agent, id] = elementsOf(key).slice(-2) as [string, string];
    // With a conflict: an event may have moved the session to another task.
    const value = await tx.get(keys.session(agent, id));
    const session = value === undefined ? null : sessionIn(value);
    if (session?.task_id === task) await forgetSession(tx, tenant, session);
    tx.clear(key);
  });
}

async function eachIn(
  { store, guard, tenant, task }: LeftoverPlace,
  { begin, end }: KeyRange,
  clear: (tx: Tx, row: KeyValue) => Promise<void>,
): Promise<boolean> {
  for (let from: Bytes | null = begin; from !== null; ) {
    const at: Bytes = from;
    const { value } = await store.transact(WRITE, async (tx) => {
      await guard(tx);
      const head = await readNewestHead(tx, tenantKeys(tenant), task);
      if (head === null || head.shred?.state !== "approved" || isHeld(head))
        return { stopped: true } as const;
      const { rows, more } = await tx.snapshot.getRange({ begin: at, end }, { limit: PAGE });
      for (const row of rows) await clear(tx, row);
      const last = rows.at(-1);
      return { stopped: false, next: more && last !== undefined ? after(last.key) : null } as const;
    });
    if (value.stopped) return false;
    from = value.next;
  }
  return true;
}

/** null: it is damaged, and is forgotten with its time. */
const sessionIn = (value: Bytes): AgentSession | null => readable(() => decodeChecked<AgentSession>(value));
