// Sessions of agents that mean harm or have a wrong clock: what the store keeps of them stays bounded and true.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { type TurnEvent, turnEventQuerySchema } from "../../../../shared/protocol/turns.ts";
import { validate } from "../../../../shared/protocol/validation.ts";
import { encodeChecked } from "../../../../shared/records/kv/codec.ts";
import { tenantKeys } from "../../../../shared/records/kv/keyspace.ts";
import { clearExpiredSessions } from "../../../../shared/records/session/sessions.ts";
import { ENGINES, openTestRecords, type TestRecords } from "../../../harness/records/records.ts";

const WRITE = { label: "test", deadlineMs: 10_000, onUnknown: "safe" } as const;
const NOW = Date.parse("2026-01-24T10:00:00.000Z");
const HOUR_MS = 3_600_000;

describe.each(ENGINES)("sessions on %s", (engine) => {
  let bench: TestRecords;
  let nowMs: number;
  let agent: string;
  let agents = 0;

  beforeAll(async () => {
    bench = await openTestRecords(engine, () => nowMs);
  });
  afterAll(() => bench.close());
  beforeEach(() => {
    nowMs = NOW;
    agents += 1;
    agent = `agent-${agents}`;
  });

  const send = (event: Partial<TurnEvent>, of = agent) => {
    const whole = { event: "session_start", at: new Date(nowMs).toISOString(), vendor: "codex", ...event };
    const parsed = validate(turnEventQuerySchema, { session_id: "session-1", ...whole });
    return bench.repository.sessions.turnEvent({ tenant: "default", agent: of }, parsed);
  };
  const rowsIn = async (subspace: "sessions" | "session_folders"): Promise<number> => {
    const { begin, end } =
      subspace === "sessions"
        ? tenantKeys("default").sessionsOf(agent)
        : tenantKeys("default").sessionFolders();
    const { value } = await bench.store.transact(WRITE, (tx) =>
      tx.getRange({ begin, end }, { limit: 1_000 }),
    );
    return value.rows.length;
  };

  test("unknown members of a command are not kept, so a session has a bounded size", async () => {
    const junk = { command: "make", passed: true, junk: "x".repeat(100_000) };
    const { session } = await send({
      event: "after_model",
      activity: { commands: [junk] },
    } as Partial<TurnEvent>);
    expect(session.activity.commands).toEqual([
      { command: "make", passed: true, at: new Date(nowMs).toISOString() },
    ]);
  });

  test("an agent has a bounded number of sessions, and the oldest is forgotten first", async () => {
    for (let n = 0; n < LIMITS.session_count_max + 3; n += 1) {
      nowMs += 1_000;
      await send({ session_id: `session-${n}`, folder: `/folder/${agent}/${n}` });
    }
    expect(await rowsIn("sessions")).toBe(LIMITS.session_count_max);
    nowMs += 1_000;
    expect((await send({ session_id: "new", folder: `/folder/${agent}/2` })).previous).toBeNull();
    const { previous } = await send({ session_id: "newer", folder: `/folder/${agent}/50` });
    expect(previous?.session_id).toBe("session-50");
  });

  test("a session that moves through folders leaves no entry of the former ones", async () => {
    const before = await rowsIn("session_folders");
    for (let n = 0; n < 20; n += 1) await send({ folder: `/moving/${agent}/${n}` });
    expect(await rowsIn("session_folders")).toBe(before + 1);
  });

  test("an event of the future is refused, so that a clock that is set back does not stop the session", async () => {
    const at = new Date(NOW + HOUR_MS).toISOString();
    await expect(send({ event: "user_prompt_submit", at })).rejects.toMatchObject({
      code: "INVALID",
      fields: [{ path: "at" }],
    });
    await send({ event: "after_model" });
    nowMs += LIMITS.turn_min_ms;
    expect((await send({ event: "agent_stop" })).decision).toBe("requested");
  });

  test("two forms of one moment are the same event", async () => {
    const activity = { tool_calls: 1 };
    await send({ event: "after_model", at: "2026-01-24T09:59:00Z", activity });
    const { session } = await send({ event: "after_model", at: "2026-01-24T09:59:00.000Z", activity });
    expect(session.activity.tool_calls).toBe(1);
  });

  test("the same folder of two machines has two sessions", async () => {
    const folder = `/app/${agent}`;
    await send({ folder, machine: "box-1" });
    expect((await send({ folder, machine: "box-2", session_id: "other" })).previous).toBeNull();
    const { previous } = await send({ folder, machine: "box-1", session_id: "next" });
    expect(previous?.session_id).toBe("session-1");
  });

  test("a repeated begin of a session has the same session before it", async () => {
    const folder = `/folder/${agent}`;
    await send({ folder, session_id: "first" });
    const begins = [
      await send({ folder, session_id: "second" }),
      await send({ folder, session_id: "second" }),
    ];
    expect(begins.map(({ previous }) => previous?.session_id)).toEqual(["first", "first"]);
  });

  test("the first prompt of a new context carries the work of the old one, once, also when it is repeated", async () => {
    const decide = async (event: Partial<TurnEvent>) => (await send(event)).decision;
    const at = (seconds: number) => new Date(nowMs - HOUR_MS + seconds * 1_000).toISOString();
    const begin = { event: "session_start", at: at(0), is_continued_at_prompt: true } as const;
    expect(await decide(begin)).toBe("recorded");
    const [first, second] = [at(1), at(2)].map((at) => ({ event: "user_prompt_submit", at }) as const);
    expect([await decide(first!), await decide(first!)]).toEqual(["continue", "continue"]);
    // A begin that arrives again changes nothing.
    expect(await decide(begin)).toBe("out_of_date");
    expect(await decide(second!)).toBe("recorded");
    expect(await decide({ event: "pre_compact", at: at(3), is_continued_at_prompt: true })).toBe("recorded");
    expect(await decide({ event: "user_prompt_submit", at: at(4) })).toBe("continue");
  });

  test("a session of an earlier version continues", async () => {
    const { session } = await send({ event: "user_prompt_submit", activity: { prompt: "Add a form" } });
    const { is_continuation_due, continued_at, previous_session, machine, ...earlier } = session;
    const key = tenantKeys("default").session(agent, "session-1");
    await bench.store.transact(WRITE, async (tx) => tx.set(key, encodeChecked(earlier)));
    nowMs += 1_000;
    const { decision, session: next } = await send({ event: "user_prompt_submit" });
    expect([decision, next.activity.goal]).toEqual(["recorded", "Add a form"]);
  });

  test("an expired session leaves nothing", async () => {
    const before = await rowsIn("session_folders");
    await send({ folder: `/expired/${agent}`, machine: "box-1" });
    nowMs += LIMITS.session_kept_ms + 48 * HOUR_MS;
    await bench.store.transact(WRITE, (tx) => clearExpiredSessions(tx, nowMs, 1_000));
    expect(await rowsIn("sessions")).toBe(0);
    expect(await rowsIn("session_folders")).toBeLessThanOrEqual(before);
  });
});
