/** A mission with three specialists and its mailbox, for tests: commands, queries and the sweep, by a clock that moves by hand. */
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import type { MailboxEvent } from "../../../shared/protocol/mission-messages.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import type { QueryParams } from "../../../shared/protocol/queries.ts";
import { type MissionSweep, stepMissionSweep } from "../../../shared/records/mission/mission-sweep.ts";
import { MISSION, startMission } from "./missions.ts";
import { waitingEvents } from "./outbox.ts";
import { type Engine, openTestRecords, type SendOptions, send, type TestRecords } from "./records.ts";

const by = { task: MISSION, agent: "dispatch" };

/** `open` begins each test with a new store. */
export function createMailboxBench() {
  let bench: TestRecords | undefined;
  let now = 0;
  const current = (): TestRecords => bench as TestRecords;
  const tick = (): number => {
    now += 1;
    return now;
  };
  const open = async (engine: Engine): Promise<void> => {
    now = Date.now();
    bench = await openTestRecords(engine, tick);
    await startMission(bench.repository, 3);
  };
  const actions = mailboxActions(current, () => now);
  return {
    ...actions,
    open,
    close: () => current().close(),
    current,
    now: () => now,
    advance: (ms: number) => {
      now += ms;
    },
  };
}

function mailboxActions(current: () => TestRecords, clock: () => number) {
  const post = (to: readonly string[], body: object = {}, options: SendOptions = {}) =>
    send(
      current().repository,
      "message_send",
      { to, subject: "Review auth changes", ...body },
      { ...by, ...options },
    );
  const acknowledge = (agent: string, message_id: string, options: SendOptions = {}) =>
    send(current().repository, "message_ack", { message_id }, { task: MISSION, agent, ...options });
  const cancel = (agent: string, message_id: string, options: SendOptions = {}) =>
    send(current().repository, "message_cancel", { message_id }, { task: MISSION, agent, ...options });
  const subscribe = (agent: string, events: readonly MailboxEvent[]) =>
    send(current().repository, "mailbox_subscribe", { events }, { task: MISSION, agent });
  const mailbox = (agent: string, query: Partial<QueryParams<"mailbox">> = {}) =>
    current().repository.missions.mailbox("default", agent, {
      mission_id: MISSION,
      limit: 100,
      all: false,
      ...query,
    });
  const list = async (agent: string, query: Partial<QueryParams<"messages">> = {}) =>
    current().repository.missions.messages("default", agent, { mission_id: MISSION, limit: 100, ...query });
  const ids = async (agent: string) => (await mailbox(agent)).messages.map(({ message_id }) => message_id);
  const events = async (type: string) => (await waitingEvents(current().store, type)).map(({ data }) => data);
  const newest = async () => (await current().repository.latest("default", MISSION)).checkpoint;
  const pending = async () => (await newest())?.fleet?.pending_messages;
  const snapshot = async () => (await send(current().repository, "mission_checkpoint", {}, by)).checkpoint_id;
  const resume = (body: object = {}) => send(current().repository, "mission_resume", { ...body }, by);

  async function sweep(): Promise<number> {
    const parts: MissionSweep = {
      store: current().store,
      incarnation: current().format.incarnation,
      service: "writer",
      policies: DEFAULT_POLICIES,
      isMirrored: false,
      now: clock,
      newId: uuidv7,
    };
    let failed = 0;
    for (;;) {
      const step = await stepMissionSweep(parts);
      expect(step.skipped).toEqual([]);
      failed += step.failed;
      if (step.failed === 0) return failed;
    }
  }
  return {
    post,
    acknowledge,
    cancel,
    subscribe,
    mailbox,
    list,
    ids,
    events,
    newest,
    pending,
    snapshot,
    resume,
    sweep,
  };
}
