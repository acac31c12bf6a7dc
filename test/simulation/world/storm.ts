/** A story with every fault, so that what a seed promises is tested with all of them. */
import { SERVICES, type Story } from "./story.ts";

export function stormy(story: Story): Story {
  const { bus, store } = story;
  const [program] = SERVICES;
  return {
    ...story,
    events: [
      { at: 500, kind: "cut", program: `${program}-0` },
      { at: 900, kind: "partition", program: "agent-0", forMs: 1_500 },
      { at: 1_500, kind: "kill", program: `${program}-1`, restartMs: 200 },
      { at: 2_500, kind: "outage", how: "hangs", forMs: 700 },
      { at: 4_000, kind: "restart_bus", forMs: 600 },
      { at: 5_500, kind: "outage", how: "refuses", forMs: 500 },
      { at: 7_000, kind: "power_cut", forMs: 800 },
    ],
    bus: {
      hopMs: bus.hopMs ?? { min: 0.2, max: 3 },
      ...{ lateMessage: 0.03, lostMessage: 0.02, lostConfirmation: 0.05, lostAcknowledgement: 0.05 },
      ...{ earlyRedelivery: 0.1, forgottenAcknowledgements: 0.3 },
    },
    store: { ...store, latencyMs: 2, conflicts: 0.1, unknown: 0.08, stalls: 0.01, pauses: 0.4, pauseMs: 15 },
    removes: true,
  };
}
