// What is done about a handoff, for every state, time and finding; and that no step is one that the table of states refuses.

import { describe, expect, test } from "vitest";
import { type Examination, nextStep, type Step } from "../../../services/coordinator/next-step.ts";
import { HANDOFF_STATES, HANDOFF_TABLE, type HandoffEvent } from "../../../shared/protocol/handoff-states.ts";

const NOW = Date.UTC(2030, 0, 1);
const before = new Date(NOW - 1).toISOString();
const now = new Date(NOW).toISOString();
const later = new Date(NOW + 5_000).toISOString();

const broken = { kind: "broken", failure: { reason: "hash_broken", details: "x" } } as const;
const unofferable = {
  kind: "unofferable",
  toAgentType: "z",
  failure: { reason: "agent_type_unknown", details: "y" },
} as const;
const offerable = { kind: "offerable", offer: "the offer" } as const;
type Seen = Examination<string> | null;
const EXAMINED: readonly Seen[] = [null, broken, unofferable, offerable];

type Case = Parameters<typeof nextStep>[0];
const handoff = (state: Case["state"], more: Partial<Case> = {}): Case => ({
  state,
  attempt: state === "requested" || state === "validated" ? 0 : 1,
  max_attempts: 3,
  deadline: null,
  ...more,
});

const waiting: Step<string> = { do: "wait", untilMs: NOW + 5_000 };
const untaken = (details: string) => ({ do: "escalate", failure: { reason: "no_agent", details } });

const steps: [what: string, handoff: Case, examined: Seen, step: unknown][] = [
  ["a request is looked at", handoff("requested"), null, { do: "examine" }],
  ["a broken request is rejected", handoff("requested"), broken, { do: "reject", failure: broken.failure }],
  [
    "a request for nobody",
    handoff("requested"),
    unofferable,
    { do: "escalate", failure: unofferable.failure, toAgentType: "z" },
  ],
  ["a sound request", handoff("requested"), offerable, { do: "offer", offer: "the offer" }],
  ["a validated one is looked at", handoff("validated"), null, { do: "examine" }],
  ["a validated one that broke", handoff("validated"), broken, { do: "escalate", failure: broken.failure }],
  [
    "a validated one for nobody",
    handoff("validated"),
    unofferable,
    { do: "escalate", failure: unofferable.failure, toAgentType: "z" },
  ],
  ["a validated one", handoff("validated"), offerable, { do: "offer", offer: "the offer" }],
  ["an offer stands", handoff("offered", { deadline: later }), null, waiting],
  ["an offer stands, whatever was found", handoff("offered", { deadline: later }), broken, waiting],
  ["an offer at its deadline", handoff("offered", { deadline: now }), null, { do: "examine" }],
  ["an offer after its deadline", handoff("offered", { deadline: before }), null, { do: "examine" }],
  ["an offer without a deadline", handoff("offered"), null, { do: "examine" }],
  ["an untaken offer", handoff("offered", { deadline: now }), offerable, { do: "offer", offer: "the offer" }],
  [
    "an untaken offer that broke",
    handoff("offered", { deadline: now }),
    broken,
    { do: "escalate", failure: broken.failure },
  ],
  [
    "an untaken offer that now is for nobody",
    handoff("offered", { deadline: now }),
    unofferable,
    { do: "escalate", failure: unofferable.failure, toAgentType: "z" },
  ],
  ["the last offer stands", handoff("offered", { deadline: later, attempt: 3 }), null, waiting],
  [
    "the last offer, untaken",
    handoff("offered", { deadline: now, attempt: 3 }),
    null,
    untaken("nobody took it in 3 offers"),
  ],
  [
    "the only offer, untaken",
    handoff("offered", { deadline: now, max_attempts: 1 }),
    null,
    untaken("nobody took it in 1 offer"),
  ],
  [
    "more offers than allowed, by a policy that was changed",
    handoff("offered", { deadline: now, attempt: 5, max_attempts: 2 }),
    offerable,
    untaken("nobody took it in 5 offers"),
  ],
  ["an agent that has time", handoff("accepted", { deadline: later }), null, waiting],
  ["an agent that wrote nothing in time", handoff("accepted", { deadline: now }), null, { do: "lapse" }],
];

test.each(steps)("%s", (_what, record, examined, step) => {
  expect(nextStep(record, NOW, examined)).toEqual(step);
});

/** What a step does to a handoff, in the words of the table: an offer to a request is preceded by its validation. */
const EVENTS: Readonly<Record<"reject" | "escalate" | "offer" | "lapse", HandoffEvent>> = {
  reject: "reject",
  escalate: "escalate",
  offer: "offer",
  lapse: "lapse",
};

describe.each(HANDOFF_STATES)("%s", (state) => {
  const records = [null, before, now, later].flatMap((deadline) =>
    [1, 3].map((attempt) => handoff(state, { deadline, attempt })),
  );

  test("no step is refused by the table, and one that has ended is left alone", () => {
    for (const record of records) {
      for (const examined of EXAMINED) {
        const step = nextStep(record, NOW, examined);
        if (HANDOFF_TABLE[state].supersede === null) expect(step).toEqual({ do: "nothing" });
        else expect(step).not.toEqual({ do: "nothing" });
        if (step.do === "nothing" || step.do === "wait" || step.do === "examine") continue;
        const validated = state === "requested" && step.do !== "reject" ? "validated" : state;
        expect([state, step.do, HANDOFF_TABLE[validated][EVENTS[step.do]]]).not.toContain(null);
      }
    }
  });

  test("a look is asked for at most once, and a wait has an end", () => {
    for (const record of records) {
      for (const examined of EXAMINED.slice(1))
        expect(nextStep(record, NOW, examined).do).not.toBe("examine");
      const step = nextStep(record, NOW, null);
      if (step.do === "wait") expect(step.untilMs).toBeGreaterThan(NOW);
    }
  });
});
