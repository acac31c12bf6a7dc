// The next step of a handoff, for every state, time and built offer. No step is one that the table of states
// refuses.

import { describe, expect, test } from "vitest";
import { type BuiltOffer, type HandoffStep, nextStep } from "../../../services/coordinator/next-step.ts";
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
type Built = BuiltOffer<string> | null;
const BUILT: readonly Built[] = [null, broken, unofferable, offerable];

type Case = Parameters<typeof nextStep>[0];
const handoff = (state: Case["state"], more: Partial<Case> = {}): Case => ({
  state,
  attempt: state === "requested" || state === "validated" ? 0 : 1,
  max_attempts: 3,
  deadline: null,
  ...more,
});

const waiting: HandoffStep<string> = { do: "wait", untilMs: NOW + 5_000 };
const unaccepted = (details: string) => ({ do: "escalate", failure: { reason: "no_agent", details } });

const steps: [title: string, handoff: Case, built: Built, step: unknown][] = [
  ["a request", handoff("requested"), null, { do: "build_offer" }],
  [
    "a request with a corrupt checkpoint",
    handoff("requested"),
    broken,
    { do: "reject", failure: broken.failure },
  ],
  [
    "a request for an unknown agent type",
    handoff("requested"),
    unofferable,
    { do: "escalate", failure: unofferable.failure, toAgentType: "z" },
  ],
  ["a request with a sound checkpoint", handoff("requested"), offerable, { do: "offer", offer: "the offer" }],
  ["a validated handoff", handoff("validated"), null, { do: "build_offer" }],
  [
    "a validated handoff whose checkpoint became corrupt",
    handoff("validated"),
    broken,
    { do: "escalate", failure: broken.failure },
  ],
  [
    "a validated handoff for an unknown agent type",
    handoff("validated"),
    unofferable,
    { do: "escalate", failure: unofferable.failure, toAgentType: "z" },
  ],
  [
    "a validated handoff with a sound checkpoint",
    handoff("validated"),
    offerable,
    { do: "offer", offer: "the offer" },
  ],
  ["an offer before its deadline", handoff("offered", { deadline: later }), null, waiting],
  [
    "an offer before its deadline, with a corrupt checkpoint",
    handoff("offered", { deadline: later }),
    broken,
    waiting,
  ],
  ["an offer at its deadline", handoff("offered", { deadline: now }), null, { do: "build_offer" }],
  ["an offer after its deadline", handoff("offered", { deadline: before }), null, { do: "build_offer" }],
  ["an offer without a deadline", handoff("offered"), null, { do: "build_offer" }],
  ["an expired offer", handoff("offered", { deadline: now }), offerable, { do: "offer", offer: "the offer" }],
  [
    "an expired offer whose checkpoint became corrupt",
    handoff("offered", { deadline: now }),
    broken,
    { do: "escalate", failure: broken.failure },
  ],
  [
    "an expired offer for a type that is now unknown",
    handoff("offered", { deadline: now }),
    unofferable,
    { do: "escalate", failure: unofferable.failure, toAgentType: "z" },
  ],
  ["the last offer before its deadline", handoff("offered", { deadline: later, attempt: 3 }), null, waiting],
  [
    "the last offer at its deadline",
    handoff("offered", { deadline: now, attempt: 3 }),
    null,
    unaccepted("no agent accepted it in 3 offers"),
  ],
  [
    "the only offer at its deadline",
    handoff("offered", { deadline: now, max_attempts: 1 }),
    null,
    unaccepted("no agent accepted it in 1 offer"),
  ],
  [
    "more offers than a changed policy allows",
    handoff("offered", { deadline: now, attempt: 5, max_attempts: 2 }),
    offerable,
    unaccepted("no agent accepted it in 5 offers"),
  ],
  ["an accepted handoff before its deadline", handoff("accepted", { deadline: later }), null, waiting],
  ["an accepted handoff at its deadline", handoff("accepted", { deadline: now }), null, { do: "lapse" }],
];

test.each(steps)("%s", (_title, record, built, step) => {
  expect(nextStep(record, NOW, built)).toEqual(step);
});

/** The event of the table for each step. An offer validates a request first. */
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

  test("no step is refused by the table, and an ended handoff has none", () => {
    for (const record of records) {
      for (const built of BUILT) {
        const step = nextStep(record, NOW, built);
        if (HANDOFF_TABLE[state].supersede === null) expect(step).toEqual({ do: "nothing" });
        else expect(step).not.toEqual({ do: "nothing" });
        if (step.do === "nothing" || step.do === "wait" || step.do === "build_offer") continue;
        const validated = state === "requested" && step.do !== "reject" ? "validated" : state;
        expect([state, step.do, HANDOFF_TABLE[validated][EVENTS[step.do]]]).not.toContain(null);
      }
    }
  });

  test("an offer is built at most once, and a wait has an end", () => {
    for (const record of records) {
      for (const built of BUILT.slice(1)) expect(nextStep(record, NOW, built).do).not.toBe("build_offer");
      const step = nextStep(record, NOW, null);
      if (step.do === "wait") expect(step.untilMs).toBeGreaterThan(NOW);
    }
  });
});
