// Decisions about failures: row by row, and in random sequences.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { afterFailure } from "../../../../shared/lifecycle/budget.ts";
import { FAILURE_CLASSES, type FailureClass } from "../../../../shared/protocol/exit-report.ts";
import { DEFAULT_POLICY, type Policy } from "../../../../shared/protocol/policy.ts";
import { RECOVERY_ACTIONS } from "../../../../shared/protocol/recovery-states.ts";

type Before = Parameters<typeof afterFailure>[0];
type Failed = Parameters<typeof afterFailure>[1];

const NOW = Date.UTC(2026, 0, 1);
const DAY_MS = 24 * 3_600_000;
const iso = (ms: number): string => new Date(ms).toISOString();

const whole: Before = {
  failures: 0,
  rung: "latest",
  rung_attempts: 0,
  recent: [],
  is_probe: false,
  failure: null,
};
const default_: Policy["recovery"] = DEFAULT_POLICY.recovery;

function decide(
  failureClass: FailureClass,
  { before = {}, failure = {}, policy = {}, random = 0 } = {} as {
    before?: Partial<Before>;
    failure?: Partial<Failed>;
    policy?: Partial<Policy["recovery"]>;
    random?: number;
  },
) {
  return afterFailure(
    { ...whole, ...before },
    { class: failureClass, agent_type: null, resets_at: null, ...failure },
    { ...default_, ...policy },
    { nowMs: NOW, random: () => random },
  );
}

describe("by class and number of failures", () => {
  const latest = { do: "attempt", rung: "latest", toAgentType: null };
  test.each([
    ["crash", 0, { ...latest, action: "retry", dueMs: NOW }],
    ["crash", 1, { ...latest, action: "back_off", dueMs: NOW + 30_000 }],
    ["crash", 2, { ...latest, action: "back_off", dueMs: NOW + 60_000 }],
    ["completed", 0, { ...latest, action: "retry", dueMs: NOW }],
    ["timeout", 0, { ...latest, action: "retry", dueMs: NOW }],
    ["context_exhausted", 0, { ...latest, action: "retry", dueMs: NOW }],
    ["out_of_memory", 0, { ...latest, action: "back_off", dueMs: NOW + 15_000 }],
    ["tool_error", 0, { ...latest, action: "back_off", dueMs: NOW + 15_000 }],
    ["not_started", 0, { ...latest, action: "back_off", dueMs: NOW + 15_000 }],
    ["rate_limit", 0, { ...latest, action: "after_reset", dueMs: NOW + 15_000 }],
    ["corrupt_state", 0, { ...latest, rung: "previous", action: "previous_checkpoint", dueMs: NOW }],
    ["unrecoverable", 0, { do: "block", reason: "unrecoverable", dueMs: null }],
    ["unrecoverable", 7, { do: "block", reason: "unrecoverable", dueMs: null }],
  ] as const)("%s after %i failures", (failureClass, failures, decision) => {
    expect(decide(failureClass, { before: { failures } })).toEqual(decision);
  });

  test("if two vendors refuse, the attempt waits for the first reset, in either order of failure", () => {
    const policy = { other_agent_type: { qa: "qa-2", "qa-2": "qa" } };
    const decideAfter = (before: Partial<Failed>, resets_at: string | null = iso(NOW + 60_000)) =>
      decide("rate_limit", {
        policy,
        before: {
          failures: 1,
          failure: { class: "rate_limit", agent_type: "qa", resets_at: iso(NOW + 30_000), ...before },
        },
        failure: { agent_type: "qa-2", resets_at },
      });
    expect(decideAfter({})).toMatchObject({ toAgentType: "qa", dueMs: NOW + 30_000 });
    expect(decideAfter({}, iso(NOW + 10_000))).toMatchObject({ toAgentType: "qa-2", dueMs: NOW + 10_000 });
    expect(decideAfter({ resets_at: null })).toMatchObject({ toAgentType: "qa-2", dueMs: NOW + 60_000 });
    expect(decideAfter({ resets_at: null }, null)).toMatchObject({
      toAgentType: "qa-2",
      dueMs: NOW + 30_000,
    });
    const atOnce = { toAgentType: "qa", dueMs: NOW };
    expect(decideAfter({ resets_at: iso(NOW) })).toMatchObject(atOnce);
    expect(decideAfter({ class: "crash" })).toMatchObject(atOnce);
    expect(decideAfter({ agent_type: "qa-3" })).toMatchObject(atOnce);
  });

  test("the last action of a class repeats", () => {
    const policy = { actions: { ...default_.actions, crash: ["retry", "block"] as const } };
    for (const failures of [1, 2, 50]) {
      expect(decide("crash", { policy, before: { failures } })).toMatchObject({ reason: "unrecoverable" });
    }
  });

  test("an agent of the failed agent's type continues, or of another type if the policy names one", () => {
    const failure = { agent_type: "qa" };
    expect(decide("crash", { failure })).toMatchObject({ toAgentType: "qa" });
    const policy = {
      other_agent_type: { qa: "qa-2" },
      actions: { ...default_.actions, crash: ["other_agent_type"] as const },
    };
    expect(decide("crash", { failure, policy })).toMatchObject({ toAgentType: "qa-2", dueMs: NOW });
    const unnamed = { failure: { agent_type: "writer" }, policy };
    expect(decide("crash", unnamed)).toMatchObject({ toAgentType: "writer", dueMs: NOW + 15_000 });
    expect(decide("crash", { failure: { agent_type: "toString" }, policy })).toMatchObject({
      toAgentType: "toString",
    });
  });
});

describe("a vendor's rate limit", () => {
  const at = (ms: number) => decide("rate_limit", { failure: { resets_at: iso(NOW + ms) } });

  test("delays the attempt until its reset", () => {
    expect(at(90_000)).toMatchObject({ action: "after_reset", dueMs: NOW + 90_000 });
    expect(at(-90_000)).toMatchObject({ dueMs: NOW });
  });

  test("whose reset is more than a day away delays the attempt by at most a day", () => {
    expect(at(400 * DAY_MS)).toMatchObject({ dueMs: NOW + DAY_MS });
  });

  test("with an unreadable reset time is a pause like any other", () => {
    expect(decide("rate_limit", { failure: { resets_at: "soon" } })).toMatchObject({ dueMs: NOW + 15_000 });
  });

  test("spreads the attempts of the agents that one vendor refused", () => {
    const failure = { resets_at: iso(NOW + 1_000) };
    const dues = [0, 0.5, 1].map(
      (random) => (decide("rate_limit", { failure, random }) as { dueMs: number }).dueMs,
    );
    expect(dues).toEqual([NOW + 1_000, NOW + 3_500, NOW + 6_000]);
  });

  test("lets an agent of another vendor continue at once", () => {
    const policy = { other_agent_type: { qa: "qa-2" } };
    const failure = { agent_type: "qa", resets_at: iso(NOW + 90_000) };
    expect(decide("rate_limit", { failure, policy })).toMatchObject({ dueMs: NOW, toAgentType: "qa-2" });
  });
});

describe("the ladder", () => {
  test.each([
    ["latest", 2, { do: "attempt", rung: "latest" }],
    ["latest", 3, { do: "attempt", rung: "previous" }],
    ["previous", 0, { do: "attempt", rung: "previous" }],
    ["previous", 1, { do: "attempt", rung: "previous" }],
    ["previous", 2, { do: "block", reason: "attempts_spent", dueMs: null }],
  ] as const)("on %s after %i attempts", (rung, rung_attempts, decision) => {
    expect(decide("crash", { before: { rung, rung_attempts } })).toMatchObject(decision);
  });

  test("ends after the latest rung if there is no previous one", () => {
    const policy = { previous_attempts: 0 };
    expect(decide("crash", { policy, before: { rung_attempts: 3 } })).toMatchObject({
      reason: "attempts_spent",
    });
    expect(decide("corrupt_state", { policy })).toMatchObject({ reason: "attempts_spent" });
  });

  test("a failed probe blocks the task again, with any budget", () => {
    expect(decide("crash", { before: { is_probe: true } })).toMatchObject({
      do: "block",
      reason: "attempts_spent",
    });
  });

  test("the policy may allow probes when the budget is spent, never for an unrecoverable failure", () => {
    const policy = { half_open_ms: 60_000 };
    const spent = { policy, before: { is_probe: true } };
    expect(decide("crash", spent)).toMatchObject({ dueMs: NOW + 60_000 });
    expect(decide("unrecoverable", spent)).toMatchObject({ dueMs: null });
  });

  test("repeated probes stay within the window", () => {
    const policy = { half_open_ms: 60_000, window_attempts: 3, window_ms: 600_000 };
    const recent: string[] = [];
    for (let nowMs = NOW; recent.length < 30; ) {
      const before = { ...whole, is_probe: true, recent };
      const failure = { class: "crash", agent_type: null, resets_at: null } as const;
      const { dueMs } = afterFailure(before, failure, { ...default_, ...policy }, { nowMs, random: () => 0 });
      expect(dueMs).toBeGreaterThanOrEqual(nowMs + policy.half_open_ms);
      nowMs = dueMs as number;
      recent.push(iso(nowMs));
      const lately = recent.filter((at) => nowMs - Date.parse(at) < policy.window_ms);
      expect(lately.length).toBeLessThanOrEqual(policy.window_attempts);
    }
    // The attempts are not slower than the window requires either.
    expect(Date.parse(recent[29] as string) - NOW).toBeLessThanOrEqual(10 * policy.window_ms);
  });

  test("the window limits the attempts of a task that makes progress again and again", () => {
    const policy = { window_attempts: 2, window_ms: 60_000 };
    const recent = (...ages: number[]) => ages.map((age) => iso(NOW - age));
    expect(decide("crash", { policy, before: { recent: recent(1, 59_999) } })).toEqual({
      do: "block",
      reason: "too_many_attempts",
      dueMs: null,
    });
    expect(decide("crash", { policy, before: { recent: recent(1, 60_000) } })).toMatchObject({
      do: "attempt",
    });
    // A clock that was set back removes no attempt from the window.
    expect(decide("crash", { policy, before: { recent: recent(-5_000, -9_000) } })).toMatchObject({
      reason: "too_many_attempts",
    });
  });
});

/** Agent types that name each other in a ring, as a policy may define them. */
const RING = { qa: "qa-2", "qa-2": "writer", writer: "qa" };
const INTO_RING = { qa: "writer", writer: "qa-2", "qa-2": "writer" };

const policies = fc.record({
  attempts: fc.integer({ min: 1, max: 5 }),
  previous_attempts: fc.integer({ min: 0, max: 4 }),
  window_attempts: fc.integer({ min: 1, max: 8 }),
  window_ms: fc.integer({ min: 1_000, max: 100_000 }),
  back_off_ms: fc.integer({ min: 1_000, max: 20_000 }),
  back_off_max_ms: fc.integer({ min: 1_000, max: 60_000 }),
  actions: fc.record(
    Object.fromEntries(
      FAILURE_CLASSES.map((name) => [
        name,
        fc.array(fc.constantFrom(...RECOVERY_ACTIONS), { minLength: 1, maxLength: 4 }),
      ]),
    ) as Record<FailureClass, fc.Arbitrary<(typeof RECOVERY_ACTIONS)[number][]>>,
  ),
  other_agent_type: fc.constantFrom<Record<string, string>>(
    {},
    { qa: "qa-2" },
    { qa: "qa" },
    RING,
    INTO_RING,
  ),
});

const happenings = fc.array(
  fc.record({
    class: fc.constantFrom(...FAILURE_CLASSES),
    agent_type: fc.constantFrom("qa", "writer", null),
    resetsInMs: fc.option(fc.integer({ min: -1_000, max: 3 * DAY_MS })),
    afterMs: fc.integer({ min: 0, max: 30_000 }),
    random: fc.double({ min: 0, max: 1, noNaN: true }),
    progress: fc.boolean(),
  }),
  { maxLength: 40 },
);

describe("failures in any order", () => {
  /** Simulates failures, each attempt made when it is due, until an operator must decide. */
  function play(
    policy: Policy["recovery"],
    failures: typeof happenings extends fc.Arbitrary<infer T> ? T : never,
    seen: (one: { decision: ReturnType<typeof afterFailure>; nowMs: number; before: Before }) => void,
  ) {
    let [before, nowMs] = [whole, NOW];
    let next: string | null = "qa";
    for (const { afterMs, resetsInMs, random, progress, ...happened } of failures) {
      // By default, the agent that should have continued is the one that failed.
      const failed = { ...happened, agent_type: happened.agent_type ?? next };
      nowMs += afterMs;
      const resets_at = resetsInMs === null ? null : iso(nowMs + resetsInMs);
      const decision = afterFailure(before, { ...failed, resets_at }, policy, {
        nowMs,
        random: () => random,
      });
      seen({ decision, nowMs, before });
      if (decision.do === "block") return;
      nowMs = Math.ceil(decision.dueMs);
      const { rung } = decision;
      next = decision.toAgentType;
      before = {
        ...before,
        failure: { ...failed, resets_at },
        failures: progress ? 0 : before.failures + 1,
        rung: progress ? "latest" : rung,
        rung_attempts: progress ? 0 : (rung === before.rung ? before.rung_attempts : 0) + 1,
        recent: [...before.recent, iso(nowMs)],
      };
    }
  }

  test("between two steps of progress there are no more attempts than both rungs have, and the rung only falls", () => {
    fc.assert(
      fc.property(policies, happenings, (changes, failures) => {
        const policy = { ...default_, ...changes };
        let attempts = 0;
        play(policy, failures, ({ decision, before }) => {
          if (before.failures === 0) attempts = 0;
          if (decision.do === "block") return;
          attempts += 1;
          expect(attempts).toBeLessThanOrEqual(policy.attempts + policy.previous_attempts);
          if (before.rung === "previous") expect(decision.rung).toBe("previous");
        });
      }),
    );
  });

  test.each([RING, INTO_RING, { qa: "qa" }])(
    "vendors that all refuse get no more attempts than others, for any ring of agent types: %j",
    (other_agent_type) => {
      for (const action of ["after_reset", "other_agent_type"] as const) {
        const policy = {
          ...default_,
          other_agent_type,
          actions: { ...default_.actions, rate_limit: [action] },
        };
        const refused = {
          class: "rate_limit",
          resetsInMs: 1_000,
          afterMs: 0,
          random: 0,
          progress: false,
        } as const;
        const decisions: ReturnType<typeof afterFailure>[] = [];
        play(
          policy,
          Array.from({ length: 40 }, () => ({ ...refused, agent_type: null })),
          ({ decision }) => decisions.push(decision),
        );
        const attempts = policy.attempts + policy.previous_attempts;
        expect(decisions.map((one) => one.do)).toEqual([...Array<string>(attempts).fill("attempt"), "block"]);
        expect(decisions.at(-1)).toMatchObject({ reason: "attempts_spent" });
      }
    },
  );

  test.each([-1_000, 100])(
    "two vendors whose reset is in %i ms each time are not asked without a pause",
    (resetsInMs) => {
      const policy = { ...default_, other_agent_type: { qa: "qa-2", "qa-2": "qa" } };
      const refused = {
        class: "rate_limit",
        afterMs: 200,
        random: 0.5,
        progress: false,
        agent_type: null,
      } as const;
      const times: number[] = [];
      play(
        policy,
        Array.from({ length: 40 }, () => ({ ...refused, resetsInMs })),
        ({ nowMs }) => times.push(nowMs),
      );
      expect(times.at(-1)! - NOW).toBeGreaterThan(policy.back_off_ms);
    },
  );

  test("no window has more attempts than it allows", () => {
    fc.assert(
      fc.property(policies, happenings, (changes, failures) => {
        const policy = { ...default_, ...changes };
        const made: number[] = [];
        play(policy, failures, ({ decision }) => {
          if (decision.do === "attempt") made.push(Math.ceil(decision.dueMs));
        });
        for (const from of made) {
          const inWindow = made.filter((at) => at >= from && at < from + policy.window_ms);
          expect(inWindow.length).toBeLessThanOrEqual(policy.window_attempts);
        }
      }),
    );
  });

  test("an attempt is due not before now, and not after the longest pause or a day for a vendor", () => {
    fc.assert(
      fc.property(policies, happenings, (changes, failures) => {
        const policy = { ...default_, ...changes };
        play(policy, failures, ({ decision, nowMs, before }) => {
          if (decision.do === "block") return;
          expect(decision.dueMs).toBeGreaterThanOrEqual(nowMs);
          const pause = Math.min(policy.back_off_max_ms, policy.back_off_ms * 2 ** before.failures);
          const latest = decision.action === "after_reset" ? Math.max(pause, DAY_MS + 5_000) : pause;
          expect(decision.dueMs).toBeLessThanOrEqual(nowMs + latest);
          if (decision.action === "back_off")
            expect(decision.dueMs).toBeGreaterThanOrEqual(nowMs + pause / 2);
        });
      }),
    );
  });
});
