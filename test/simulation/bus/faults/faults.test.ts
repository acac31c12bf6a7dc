// Each fault of the simulated bus occurs where the plan has it, and only there; and a seed has one history.

import { describe, expect, test } from "vitest";
import { runSimulated } from "../../program.ts";
import type { FaultRun, FaultRunResult } from "./faults.program.ts";

const PROGRAM = new URL("./faults.program.ts", import.meta.url);

async function results(...runs: FaultRun[]): Promise<FaultRunResult[]> {
  return JSON.parse(await runSimulated(PROGRAM, [JSON.stringify(runs)])) as FaultRunResult[];
}

/** The facts of a scenario without a fault, and then with each of the plans. */
async function factsOf(scenario: FaultRun["scenario"], ...plans: NonNullable<FaultRun["faults"]>[]) {
  const runs = [{}, ...plans].map((faults) => ({ scenario, seed: 1, faults }));
  return (await results(...runs)).map(({ facts }) => facts);
}

describe("a fault occurs with its plan and not without it", () => {
  test("lost messages: requests without an answer, some of which were carried out", async () => {
    const [without, lossy] = await factsOf("requests", { lostMessage: 0.2 });
    expect(without).toEqual({ ok: 60, handled: 60 });
    const { ok, timeout, handled } = lossy as Record<string, number>;
    expect(ok! + timeout!).toBe(60);
    expect(timeout).toBeGreaterThan(5);
    // The answers of others were lost.
    expect([handled! > ok!, handled! < 60]).toEqual([true, true]);
  });

  test("lost confirmations: the caller sees a timeout, the message is stored, and its repetition is a duplicate", async () => {
    const [without, lossy] = await factsOf("publishing", { lostConfirmation: 0.4 });
    expect(without).toEqual({ ok: 40, duplicates: 0, stored: 40 });
    expect(lossy).toMatchObject({ ok: 40, stored: 40 });
    expect(lossy!.timeout).toBeGreaterThan(5);
    expect(lossy!.duplicates).toBeGreaterThan(5);
  });

  test("lost acknowledgements and early redeliveries: messages are handled again, and stay in order", async () => {
    const [without, lossy, early] = await factsOf(
      "consuming",
      { lostAcknowledgement: 0.4 },
      { earlyRedelivery: 0.9 },
    );
    expect(without).toEqual({ messages: 20, deliveries: 20, redelivered: 0, inOrder: true });
    for (const facts of [lossy, early]) {
      expect(facts).toMatchObject({ messages: 20, inOrder: true });
      expect(facts!.redelivered).toBeGreaterThan(2);
    }
  });

  test("delays: messages of other connections and subjects overtake each other, those of one never", async () => {
    const [without, late] = await factsOf("overtaking", { hopMs: { min: 1, max: 6 }, lateMessage: 0.1 });
    expect(without).toEqual({ arrived: 200, sources: 4, overtaken: 0, inOrder: true });
    expect(late).toMatchObject({ arrived: 200, sources: 4, inOrder: true });
    expect(late!.overtaken).toBeGreaterThan(10);
  });

  test("a cut socket: the open requests fail at once, and the connection returns", async () => {
    const [without, cut] = await factsOf("callerFault", {
      timed: [{ kind: "cut", at: 2_000, connection: "caller" }],
    });
    expect(without).toMatchObject({ statuses: [], outcomes: { ok: 20 } });
    const { statuses, ...rest } = cut as { statuses: { status: string }[] };
    expect(statuses.map(({ status }) => status)).toEqual(["disconnected", "reconnecting", "connected"]);
    expect(rest).toMatchObject({ last: "ok", held: "timeout" });
  });

  test("a partition: silence at first, then a lost connection, and requests that fail before they are sent", async () => {
    const [, long, short] = await factsOf(
      "callerFault",
      { timed: [{ kind: "partition", at: 2_000, connection: "caller", forMs: 10_000 }] },
      { timed: [{ kind: "partition", at: 2_000, connection: "caller", forMs: 1_500 }] },
    );
    const { statuses, outcomes, last } = long as {
      statuses: { status: string; second: number }[];
      outcomes: Record<string, number>;
      last: string;
    };
    expect(statuses[0]!.status).toBe("disconnected");
    // Two unanswered pings.
    expect(statuses[0]!.second).toBeGreaterThanOrEqual(4);
    expect(statuses.slice(1, -1).every(({ status }) => status === "reconnecting")).toBe(true);
    expect([statuses.length > 2, statuses.at(-1)!.status, last]).toEqual([true, "connected", "ok"]);
    expect(Object.keys(outcomes).sort()).toEqual(["ok", "timeout", "unavailable"]);
    // A short one only delays.
    expect(short).toMatchObject({ statuses: [], outcomes: { ok: 19, timeout: 1 }, last: "ok" });
  });

  test("a slow consumer: it is cut off and misses messages, and no other subscriber does", async () => {
    const stall = { kind: "stall", at: 1_000, connection: "slow", forMs: 2_000 } as const;
    // It ends before enough messages wait for a cut. The stall of the other connection must not end with it.
    const partition = { kind: "partition", at: 1_020, connection: "quick", forMs: 80 } as const;
    const [without, ...stalled] = await factsOf(
      "slowSubscriber",
      { slowConsumerMax: 100, timed: [stall] },
      { slowConsumerMax: 100, timed: [stall, partition] },
    );
    const all = { quick: 2_000, newest: 1_999, inOrder: true };
    expect(without).toEqual({ ...all, slow: 2_000, statuses: [] });
    for (const facts of stalled) {
      expect(facts).toMatchObject({ ...all, statuses: ["disconnected", "reconnecting", "connected"] });
      expect(facts.slow).toBeLessThan(1_500);
    }
  });

  test("a restart: streams and subscriptions stay, a work queue forgets its ids, and consumers may forget settlements", async () => {
    const restart = { kind: "restart", at: 5_000, forMs: 500 } as const;
    const [without, restarted, forgetful] = await factsOf(
      "restarting",
      { timed: [restart] },
      { timed: [restart], forgottenAcknowledgements: 1 },
    );
    const kept = { kept: 5, heard: ["after"], redelivered: 0 };
    expect(without).toEqual({ ...kept, duplicates: { stored: true, work: true }, again: [] });
    const after = { ...kept, duplicates: { stored: true, work: false } };
    expect(restarted).toEqual({ ...after, again: ["SIMULATED_WORK 0"] });
    expect(forgetful).toMatchObject(after);
    expect((forgetful!.again as string[]).some((value) => value.startsWith("SIMULATED "))).toBe(true);
  });

  test("a repeated message is dropped within the window of its stream, and stored after it", async () => {
    const [facts] = await factsOf("repeating");
    expect(facts).toEqual({ duplicates: [false, true, false], stored: 2 });
  });
});

test("one seed gives one history byte for byte, also in another process, and other seeds give others", async () => {
  const run = (seed: number): FaultRun => ({ scenario: "mixture", seed });
  const [first, second] = await Promise.all([results(run(1), run(2)), results(run(3), run(2), run(1))]);
  expect(second[1]).toEqual(first[1]);
  expect(second[2]).toEqual(first[0]);
  expect(new Set([...first, ...second].map(({ digest }) => digest)).size).toBe(3);
});

test("under all faults, what is confirmed is stored once and in order, and handled at least once", async () => {
  const seeds = Array.from({ length: 12 }, (_, i) => 100 + i);
  const found = await results(...seeds.map((seed): FaultRun => ({ scenario: "mixture", seed })));
  for (const [i, { facts }] of found.entries())
    expect(facts, `seed ${seeds[i]}`).toMatchObject({ isComplete: true, handled: 180 });
  expect(found.some(({ facts }) => (facts.deliveries as number) > 180)).toBe(true);
});
