// A watchdog that observes too little for too long alerts operators once an hour, but not for outages and
// suspended machines.

import { describe, expect, test } from "vitest";
import { MonitoredOwners } from "../../../../services/watchdog/detection/monitored-owners.ts";
import {
  ObservationWindow,
  startObservationAlert,
} from "../../../../services/watchdog/detection/observation-alert.ts";
import { startObservedClock } from "../../../../services/watchdog/detection/observed-clock.ts";
import type { BusStatus, PublishAck } from "../../../../shared/bus/bus.ts";
import { alertText } from "../../../../shared/protocol/alert-text.ts";
import { type ReceivedAlert, readAlert } from "../../../../shared/protocol/alerts.ts";
import { createMetrics } from "../../../../shared/runtime/observability/metrics.ts";
import { manualClock } from "../../../harness/clock.ts";
import { testLog } from "../../../harness/processes/nats.ts";

describe("the window", () => {
  /**
   * Reads once a second, of which `heardMs` were observed. Returns the seconds with too little observation.
   */
  function play(
    seconds: number,
    what: (second: number) => { heardMs: number; afterOutage?: boolean; isConnected?: boolean },
  ) {
    const window = new ObservationWindow();
    const found: { second: number; heardMs: number }[] = [];
    let [observedMs, sinceMs] = [0, 0];
    for (let second = 1; second <= seconds; second += 1) {
      const { heardMs, afterOutage = false, isConnected = true } = what(second);
      observedMs += heardMs;
      if (afterOutage) sinceMs = observedMs;
      const tooLittle = window.read({ atMs: second * 1_000, observedMs, sinceMs, isConnected });
      if (tooLittle !== null) found.push({ second, heardMs: tooLittle });
    }
    return found;
  }

  test("reports nothing while more than half of the time is observed", () => {
    expect(play(600, () => ({ heardMs: 1_000 }))).toEqual([]);
    expect(play(600, () => ({ heardMs: 550 }))).toEqual([]);
  });

  test("reports how little is observed after two minutes", () => {
    const [first, ...others] = play(600, () => ({ heardMs: 100 }));
    expect(first).toEqual({ second: 120, heardMs: 6_000 });
    expect(others.at(-1)).toEqual({ second: 600, heardMs: 6_000 });
  });

  test("counts only uninterrupted observation: repeated outages start it again", () => {
    const [first] = play(600, (second) => ({ heardMs: 900, afterOutage: second % 5 === 0 }));
    expect(first?.heardMs).toBeLessThan(5_000);
    expect(play(600, (second) => ({ heardMs: 1_000, afterOutage: second % 100 === 0 }))).toEqual([]);
  });

  test("does not report an outage of the bus, but does report a flapping connection", () => {
    const outage = (second: number) => second > 100 && second < 400;
    expect(
      play(600, (second) => ({
        heardMs: outage(second) ? 0 : 1_000,
        afterOutage: second === 400,
        isConnected: !outage(second),
      })),
    ).toEqual([]);
    const flapping = (second: number) => ({
      heardMs: 300,
      afterOutage: second % 10 === 0,
      isConnected: second % 10 !== 0,
    });
    expect(play(600, flapping)).not.toEqual([]);
  });

  test("starts again after the machine was suspended", () => {
    const window = new ObservationWindow();
    let atMs = 0;
    for (let second = 0; second < 300; second += 1) {
      atMs += second === 150 ? 8 * 3_600_000 : 1_000;
      const reading = { atMs, observedMs: second * 1_000, sinceMs: 0, isConnected: true };
      expect(window.read(reading)).toBeNull();
    }
  });
});

/** One owner, so that the time matters. */
function oneOwner(): MonitoredOwners {
  const owners = new MonitoredOwners();
  const identity = { tenant: "default", task: "t", fence: 1, agentId: "a", agentType: "", silenceMs: 10_000 };
  const times = { heardAt: 0, lastSignAt: 0, leaseUntil: 0, checkedAt: 0, notBefore: 0 };
  owners.add({ ...identity, ...times, isOverdue: false });
  return owners;
}

describe("the alert", () => {
  function open() {
    const clock = manualClock();
    const alerts: ReceivedAlert[] = [];
    let isSilent = false;
    let isFull = false;
    let waiting: (() => void)[] = [];
    const bus = {
      onStatus: (_handler: (status: BusStatus) => void) => () => {},
      health: async () => {
        if (isSilent) await new Promise<void>((resolve) => waiting.push(resolve));
        return { ok: true, detail: "" };
      },
    };
    const backgroundBus = {
      publishDurable: async (_subject: string, { body }: { body: Uint8Array }): Promise<PublishAck> => {
        if (isFull) throw new Error("the stream is full");
        alerts.push(readAlert(JSON.parse(Buffer.from(body).toString())));
        return { stream: "FLEET_ALERTS", seq: alerts.length, duplicate: false };
      },
    };
    const owners = oneOwner();
    const context = { clock, log: testLog, owners, metrics: createMetrics({ ofProcess: false }) };
    const observedClock = startObservedClock({ ...context, bus });
    const stop = startObservationAlert({ ...context, bus, backgroundBus, observedClock, instance: "host-7" });
    return {
      alerts,
      async seconds(count: number) {
        for (let second = 0; second < count; second += 1) await clock.advance(1_000);
      },
      full: (is: boolean) => {
        isFull = is;
      },
      silence: () => {
        isSilent = true;
      },
      answer: () => {
        isSilent = false;
        for (const resolve of waiting.splice(0)) resolve();
      },
      async stop() {
        isSilent = false;
        for (const resolve of waiting.splice(0)) resolve();
        waiting = [];
        await Promise.all([stop(), observedClock.stop()]);
      },
    };
  }

  test("is published once an hour while observation is insufficient, with what to do", async () => {
    const { alerts, seconds, silence, answer, stop } = open();
    await seconds(90);
    expect(alerts).toEqual([]);
    silence();
    await seconds(180);
    expect(alerts).toMatchObject([
      {
        type: "ATTENTION_LOST",
        severity: "critical",
        tenant: "default",
        subject: "unknown",
        data: { watchdog: "host-7", ofMs: 60_000 },
      },
    ]);
    const { what, todo, command } = alertText(alerts[0]!);
    for (const sentence of [what, todo]) expect(sentence).toMatch(/^[A-Z][^<>&]*\.$/);
    expect(what).toContain("host-7");
    expect(command).toBe("fleet status");
    await seconds(3_300);
    expect(alerts).toHaveLength(1);
    await seconds(360);
    expect(alerts).toHaveLength(2);
    expect(alerts[1]?.id).not.toBe(alerts[0]?.id);
    answer();
    await seconds(3_700);
    expect(alerts).toHaveLength(2);
    await stop();
  });

  test("is published as soon as the stream accepts it", async () => {
    const { alerts, seconds, silence, full, stop } = open();
    full(true);
    silence();
    await seconds(300);
    expect(alerts).toEqual([]);
    full(false);
    await seconds(2);
    expect(alerts).toHaveLength(1);
    await stop();
  });
});
