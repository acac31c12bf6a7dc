/** A story with every fault, so that what a seed promises is tested with all of them. */
import { SERVICES, type Story, type StoryEvent } from "./story.ts";

const ROUND_MS = 8_000;

/** Every event within one round. Each round has another service and another agent. */
function roundOf(n: number): StoryEvent[] {
  const service = SERVICES[n % SERVICES.length]!;
  const events: StoryEvent[] = [
    { at: 500, kind: "cut", program: `${service}-0` },
    { at: 900, kind: "partition", program: `agent-${n}`, forMs: 1_500 },
    { at: 1_500, kind: "kill", program: `${service}-1`, restartMs: 200 },
    { at: 2_500, kind: "outage", how: "hangs", forMs: 700 },
    { at: 4_000, kind: "restart_bus", forMs: 600 },
    { at: 5_500, kind: "outage", how: "refuses", forMs: 500 },
    { at: 6_000, kind: "replace_root_key", everyMs: 200 },
    { at: 6_600, kind: "power_cut", machine: "agents", forMs: 300 },
    { at: 7_000, kind: "power_cut", machine: "services", forMs: 800 },
  ];
  return events.map((event) => ({ ...event, at: event.at + n * ROUND_MS }));
}

/** A story of twice the size, which lasts twice as long, has two rounds. */
export function stormy(story: Story, size = 1): Story {
  const { bus, store } = story;
  return {
    ...story,
    events: Array.from({ length: size }, (_, n) => roundOf(n)).flat(),
    bus: {
      hopMs: bus.hopMs ?? { min: 0.2, max: 3 },
      ...{ lateMessage: 0.03, lostMessage: 0.02, lostConfirmation: 0.05, lostAcknowledgement: 0.05 },
      ...{ earlyRedelivery: 0.1, forgottenAcknowledgements: 0.3 },
    },
    store: { ...store, latencyMs: 2, conflicts: 0.1, unknown: 0.08, stalls: 0.01, pauses: 0.4, pauseMs: 15 },
    ...{ launched: Math.max(size, story.launched), removes: true, signs: true, encrypts: true },
    ...{ rotates: true, recovers: true, acts: Math.max(5 * size, story.acts) },
  };
}
