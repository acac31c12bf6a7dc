// The tables of the protocol: errors, retention, limits and schema versions. Each is complete, and each row
// is correct.

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hashOf, open, seal } from "../../../shared/integrity/seal.ts";
import { errorAnswerSchema } from "../../../shared/protocol/answers.ts";
import { SCHEMA_VERSION } from "../../../shared/protocol/checkpoint.ts";
import {
  ERROR_CODES,
  ERROR_TABLE,
  type ErrorBody,
  FleetError,
  invalid,
  shown,
} from "../../../shared/protocol/errors.ts";
import { isLasting } from "../../../shared/protocol/lasting-refusal.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { migrate, requireSupported } from "../../../shared/protocol/migrations.ts";
import {
  DEFAULT_RETENTION,
  RETENTION_POLICIES,
  retentionDays,
  retentionSchema,
} from "../../../shared/protocol/retention.ts";

import { unsealed } from "../integrity/checkpoint.ts";

describe("errors", () => {
  test("the table has exactly the error codes, each with a meaning", () => {
    expect(Object.keys(ERROR_TABLE).sort()).toEqual([...ERROR_CODES].sort());
    for (const row of Object.values(ERROR_TABLE)) {
      expect(row.meaning).toMatch(/^[A-Z].*\.$/);
      expect(row.status).toBeGreaterThanOrEqual(400);
      expect(row.exit).toBeGreaterThan(0);
      expect(row.exit).toBeLessThan(126);
    }
  });

  test("only UNAVAILABLE and TIMEOUT are retryable", () => {
    expect(ERROR_CODES.filter((code) => ERROR_TABLE[code].retryable)).toEqual(["UNAVAILABLE", "TIMEOUT"]);
  });

  test("exit codes differ, except for the two codes about permissions", () => {
    const exits = ERROR_CODES.filter((code) => code !== "FORBIDDEN").map((code) => ERROR_TABLE[code].exit);
    expect(new Set(exits).size).toBe(exits.length);
    expect(ERROR_TABLE.FORBIDDEN.exit).toBe(ERROR_TABLE.UNAUTHORIZED.exit);
  });

  test.each(ERROR_CODES)("%s survives a round trip over the wire", (code) => {
    const error = new FleetError(code, "static text", {
      fields: [{ path: "a.0", expected: "x", got: "y" }],
      details: { task_id: "t" },
      retryAfterMs: 50,
    });
    const body = JSON.parse(JSON.stringify(error.toBody())) as ErrorBody;
    expect(errorAnswerSchema.parse({ status: "error", error: body }).error).toEqual(body);
    const back = FleetError.fromBody(body);
    expect(back).toMatchObject({ name: "FleetError", message: "static text", retryAfterMs: 50 });
    expect(back.toBody()).toEqual(error.toBody());
    expect(back.exitCode).toBe(ERROR_TABLE[code].exit);
  });

  test("missing parts of an error are absent, not empty", () => {
    expect(new FleetError("INTERNAL", "x").toBody()).toEqual({
      code: "INTERNAL",
      message: "x",
      retryable: false,
    });
  });

  test("a code of a newer server becomes INTERNAL and keeps its text", () => {
    const back = FleetError.fromBody({ code: "NEW" as "INTERNAL", message: "x", retryable: true });
    expect(back.toBody()).toEqual({ code: "INTERNAL", message: "x", retryable: false });
  });

  test.each([
    [null, "null"],
    [[1, 2], "array of 2"],
    ["short", '"short"'],
    ["x".repeat(41), "string of 41 characters"],
    [7, "7"],
    [false, "false"],
    [{ a: 1 }, "object"],
  ])("%j is shown as %s", (value, text) => {
    expect(shown(value)).toBe(text);
    expect(invalid("a", "b", value).fields).toEqual([{ path: "a", expected: "b", got: text }]);
  });

  test("a field without a value has no got", () => {
    expect(invalid("a", "b").fields).toEqual([{ path: "a", expected: "b" }]);
  });
});

describe("retention", () => {
  const days: [policy: string, days: number | null][] = [
    ["short", 7],
    ["standard", 90],
    ["regulated", 2_557],
    ["permanent", null],
    ["P1D", 1],
    ["P5228W", 36_596],
    ["P1180M", 36_580],
    ["P100Y", 36_600],
    ["P30D", 30],
    ["P2W", 14],
    ["P3M", 93],
    ["P6Y", 2_196],
    ["P36600D", 36_600],
  ];
  test.each(days)("%s keeps for %s days", (policy, expected) => {
    expect(retentionDays(policy)).toBe(expected);
    expect(retentionSchema.safeParse(policy).success).toBe(true);
  });

  test.each([
    [""],
    ["P"],
    ["PD"],
    ["P1H"],
    ["PT1H"],
    ["P1Y6M"],
    ["P-1D"],
    ["P1.5D"],
    ["p1d"],
    ["P100000D"],
    ["Standard"],
    ["constructor"],
    ["P1D\n"],
  ])("%j is not a retention policy", (policy) => {
    expect(retentionSchema.safeParse(policy).success).toBe(false);
    expect(() => retentionDays(policy)).toThrow(RangeError);
  });

  test.each([["P0D"], ["P0Y"], ["P01D"], ["P36601D"], ["P5229W"], ["P1181M"], ["P101Y"], ["P99999D"]])(
    "%s is refused, but an earlier version may have stored it",
    (policy) => {
      expect(retentionSchema.safeParse(policy).success).toBe(false);
      expect(retentionDays(policy)).toBeGreaterThanOrEqual(0);
    },
  );

  test("months and years are never shorter than in the calendar", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 0, max: 20_000 }),
        (amount, startDay) => {
          const start = new Date(startDay * 86_400_000);
          const inDays = (end: number) => (end - start.getTime()) / 86_400_000;
          const year = Date.UTC(start.getUTCFullYear() + amount, start.getUTCMonth(), start.getUTCDate());
          const month = Date.UTC(start.getUTCFullYear(), start.getUTCMonth() + amount, start.getUTCDate());
          expect(retentionDays(`P${amount}Y`)).toBeGreaterThanOrEqual(inDays(year));
          expect(retentionDays(`P${amount}M`)).toBeGreaterThanOrEqual(inDays(month));
        },
      ),
    );
  });

  test("the default is in the table, and regulated covers six years", () => {
    expect(RETENTION_POLICIES).toHaveProperty(DEFAULT_RETENTION);
    expect(RETENTION_POLICIES.regulated).toBeGreaterThanOrEqual(6 * 366);
  });
});

describe("limits", () => {
  test("every limit is a whole number above zero", () => {
    for (const [name, value] of Object.entries(LIMITS))
      expect(value > 0 && Number.isSafeInteger(value), name).toBe(true);
  });

  const below: [smaller: keyof typeof LIMITS, larger: keyof typeof LIMITS][] = [
    ["checkpoint_bytes_warn", "checkpoint_bytes_max"],
    ["checkpoint_bytes_max", "reply_bytes_max"],
    ["reply_bytes_max", "payload_bytes_max"],
    ["history_limit_default", "history_limit_max"],
    ["search_limit_default", "search_limit_max"],
    ["audit_limit_default", "audit_limit_max"],
    ["request_attempt_ms_default", "request_deadline_ms_default"],
    ["command_deadline_ms", "request_deadline_ms_default"],
    ["query_deadline_ms", "request_deadline_ms_default"],
    ["redelivery_ms_max", "idempotency_ms"],
    ["request_deadline_ms_default", "redelivery_ms_max"],
    ["leader_renew_ms", "leader_lease_ms"],
    ["compress_bytes_min", "inline_bytes_max"],
    ["index_word_chars_min", "index_word_chars_max"],
  ];
  test.each(below)("%s is below %s", (smaller, larger) =>
    expect(LIMITS[smaller]).toBeLessThan(LIMITS[larger]),
  );
});

describe("schema versions", () => {
  test.each([["1.0"], ["1.7"], ["0.9"]])("%s is supported", (version) =>
    expect(() => requireSupported(version)).not.toThrow(),
  );

  test.each([["2.0"], ["10.1"]])("%s is refused", (version) => {
    expect(() => requireSupported(version)).toThrow(
      expect.objectContaining({
        code: "UNSUPPORTED_VERSION",
        fields: [{ path: "schema_version", expected: "at most 1.x", got: version }],
      }),
    );
  });

  test.each<[string, object, object]>([
    [
      "the total stood in for the tokens in the context",
      { tokens_consumed: 9, context_limit: 20 },
      { context_tokens: 9 },
    ],
    ["without a limit it did not", { tokens_consumed: 9 }, {}],
    ["the tokens in the context stay", { tokens_consumed: 9, context_tokens: 5, context_limit: 20 }, {}],
    ["and so does a reported part", { tokens_consumed: 9, context_limit: 20, context_utilization: 0.1 }, {}],
  ])("from 1.0: %s", (_, metrics, added) => {
    const { context_utilization: _reported, ...bare } = unsealed({}).metrics;
    const before = open(seal({ ...unsealed({ schema_version: "1.0" }), metrics: { ...bare, ...metrics } }));
    const after = migrate(before);
    expect(after).toEqual({ ...before, schema_version: "1.1", metrics: { ...before.metrics, ...added } });
  });

  test("a checkpoint of the current version stays unchanged, so that its hash still matches", () => {
    const opened = open(seal(unsealed({ schema_version: SCHEMA_VERSION })));
    expect(hashOf(migrate(opened))).toBe(opened.compliance.hash);
  });
});

describe("a refusal", () => {
  const fenced = (given: number | null) => new FleetError("FENCED", "fenced", { details: { given } });
  const versioned = (expected: number, got: number) =>
    new FleetError("CONFLICT", "another version", {
      fields: [{ path: "expected_version", expected: String(expected), got: String(got) }],
    });

  test.each([
    ["an old fence", fenced(1)],
    ["a past version", versioned(3, 2)],
    ["a finalized checkpoint", new FleetError("FINALIZED", "refused")],
    ["a wrong input", new FleetError("INVALID", "refused")],
    ["the age of the command", new FleetError("EXPIRED", "refused")],
  ])("for %s holds for good", (_, refusal) => expect(isLasting(refusal)).toBe(true));

  test.each([
    ["the owner of the task", fenced(null)],
    ["a version that is still to come", versioned(1, 2)],
    ["the state of the task", new FleetError("CONFLICT", "refused")],
    ["what does not exist", new FleetError("NOT_FOUND", "refused")],
    ["what may be restored", new FleetError("CORRUPT", "refused")],
  ])("for %s can pass", (_, refusal) => expect(isLasting(refusal)).toBe(false));
});
