// The verdicts on made samples, and on those of a real run of some seconds beside a process that leaks memory. The recording is from
// `npm run soak -- --minutes 0.5 --every 1 --warm-up 0.1 --rate 4 --leak memory --json FILE` on a busy machine.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { LEAKING_PROCESS } from "../programs/leaks.ts";
import { KINDS, type Kind, OF_RESIDENTS, ROWS, type Sample, STREAM } from "../sizes/sample.ts";
import { allowed, type Judged, judgeAll, type Verdict, verdictOf } from "./verdict.ts";

const MIB = 1024 * 1024;
const HOURLY = { per: "hour", amount: 10 } as const;
const line = (low: number, high: number) => ({
  slope: (low + high) / 2,
  low,
  high,
  mean: 1_000,
  samples: 20,
});

/** In columns, one value for each sample; null: it was not measured. */
interface Recording {
  readonly warm_up_hours: number;
  readonly hours: readonly number[];
  readonly commands: readonly number[];
  readonly values: Readonly<Record<string, Readonly<Record<string, readonly (number | null)[]>>>>;
}

const recording = JSON.parse(
  readFileSync(new URL("recorded-run.json", import.meta.url), "utf8"),
) as Recording;

/** The members of each value, as they were in the sample at `i`. */
const atSample = (i: number): Sample["values"] =>
  Object.fromEntries(
    Object.entries(recording.values).map(([subject, kinds]) => [
      subject,
      Object.fromEntries(
        Object.entries(kinds).flatMap(([kind, column]) => (column[i] == null ? [] : [[kind, column[i]]])),
      ),
    ]),
  );

const recorded: readonly Sample[] = recording.hours.map((hours, i) => ({
  hours,
  commands: recording.commands[i]!,
  values: atSample(i),
}));

/** Twenty samples in an hour and a thousand commands between two of them. */
const samplesOf = (subject: string, kind: Kind, value: (i: number) => number): Sample[] =>
  Array.from({ length: 20 }, (_, i) => ({
    hours: i / 20,
    commands: 1_000 * i,
    values: { [subject]: { [kind]: value(i) } },
  }));

const verdicts = (judged: readonly Judged[]) =>
  Object.fromEntries(judged.map(({ subject, kind, verdict }) => [`${subject}: ${kind}`, verdict]));

describe("the verdict on a line", () => {
  test.each<[number, number, Verdict]>([
    [-5, 5, "flat"],
    [1, 10, "flat"],
    [-90, -80, "flat"],
    [5, 15, "unclear"],
    [-Infinity, Infinity, "unclear"],
    [10.5, 15, "grows"],
  ])("a growth of %d to %d against a limit of 10 an hour", (low, high, verdict) =>
    expect(verdictOf(line(low, high), HOURLY)).toBe(verdict),
  );

  test("the cost of a command is kept as long as it is within its limit", () => {
    expect(verdictOf(line(5, 9), { per: "command", amount: 10 })).toBe("kept");
    expect(verdictOf(line(15, 19), { per: "command", amount: 10 })).toBe("grows");
  });

  test("without a limit there is no verdict, and without a line none can be reached", () => {
    expect(verdictOf(line(5, 9), null)).toBe("not judged");
    expect(verdictOf(undefined, HOURLY)).toBe("unclear");
  });

  test("a share of the mean holds where it is more than the amount", () => {
    expect(allowed({ ...HOURLY, share: 0.05 }, 1_000)).toBe(50);
    expect(allowed({ ...HOURLY, share: 0.05 }, 100)).toBe(10);
  });
});

describe("the verdicts on samples", () => {
  const noise = (i: number) => ((i * 7) % 5) * 10_000;

  test("a heap that grows by 10 MiB an hour grows, and one that wavers is flat", () => {
    const leak = samplesOf("fleet", "live_heap", (i) => 50 * MIB + (10 * MIB * i) / 20 + noise(i));
    const flat = samplesOf("fleet", "live_heap", (i) => 50 * MIB + noise(i));
    expect(judgeAll(leak, 0)).toMatchObject([{ subject: "fleet", kind: "live_heap", verdict: "grows" }]);
    expect(judgeAll(leak, 0)[0]?.line?.slope).toBeCloseTo(10 * MIB, -5);
    expect(judgeAll(flat, 0)).toMatchObject([{ verdict: "flat" }]);
  });

  test("growth that ends in the warm-up is not judged", () => {
    const settled = samplesOf("fleet", "live_heap", (i) => 50 * MIB + Math.min(i, 8) * 5 * MIB);
    expect(judgeAll(settled, 0)).toMatchObject([{ verdict: "unclear" }]);
    expect(judgeAll(settled, 8 / 20)).toMatchObject([{ verdict: "flat", first: 90 * MIB, last: 90 * MIB }]);
  });

  test("the audit trail may cost what a command costs, and no more", () => {
    const audit = (bytes: number) => samplesOf(`${ROWS}audit`, "bytes", (i) => 1_000 * i * bytes);
    expect(judgeAll(audit(700), 0)).toMatchObject([{ verdict: "kept", perCommand: { slope: 700 } }]);
    expect(judgeAll(audit(7_000), 0)).toMatchObject([{ verdict: "grows" }]);
  });

  test("the rows of a task that stays are flat, although those of all tasks grow", () => {
    const rows = (subject: string) =>
      judgeAll(
        samplesOf(subject, "rows", (i) => 160 + 20 * i),
        0,
      );
    expect(rows(`${ROWS}checkpoints${OF_RESIDENTS}`)).toMatchObject([{ verdict: "grows" }]);
    expect(rows(`${ROWS}checkpoints`)).toMatchObject([{ verdict: "not judged" }]);
  });

  test("a value that a sample lacks is left out of the line", () => {
    const some = samplesOf(`${ROWS}outbox`, "rows", () => 3).map((sample, i) =>
      i % 2 === 0 ? sample : { ...sample, values: {} },
    );
    expect(judgeAll(some, 0)).toMatchObject([{ verdict: "flat", line: { samples: 10 } }]);
  });
});

describe("the recorded run", () => {
  const judge = (samples: readonly Sample[]) => verdicts(judgeAll(samples, recording.warm_up_hours));

  test("the leaking process is reported, and its descriptors are flat", () => {
    expect(judge(recorded)).toMatchObject({
      [`${LEAKING_PROCESS}: live_heap`]: "grows",
      [`${LEAKING_PROCESS}: descriptors`]: "flat",
      [`${LEAKING_PROCESS}: threads`]: "flat",
    });
  });

  test("every kind of measure is in it", () => {
    const kinds = new Set(Object.values(recording.values).flatMap((value) => Object.keys(value)));
    expect([...kinds].sort()).toEqual(Object.keys(KINDS).sort());
  });

  test("a stream whose messages are never removed would be reported", () => {
    const queue = `${STREAM}FLEET_QUEUE`;
    const filling = recorded.map((sample, i) => ({
      ...sample,
      values: { ...sample.values, [queue]: { ...sample.values[queue], messages: 10 * i } },
    }));
    expect(judge(filling)[`${queue}: messages`]).toBe("grows");
  });
});
