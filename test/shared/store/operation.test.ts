import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { Deadlines } from "../../../shared/store/deadlines.ts";
import { Operation, type RetryRules } from "../../../shared/store/operation.ts";
import { type CommitOutcome, StoreError, type StoreErrorKind } from "../../../shared/store/store.ts";

const rules: RetryRules = {
  label: "test",
  deadlineMs: 10_000,
  onUnknown: "unsafe",
  maxRetryDelayMs: 1,
  deadlines: new Deadlines(),
};
const execute = promisify(execFile);
const never = () => new Promise<never>(() => {});

/** An attempt that only counts its cancellations. */
const runningAttempt = (committing: boolean) => ({
  committing,
  cancelled: 0,
  cancel() {
    this.cancelled += 1;
  },
});

const failure = (kind: StoreErrorKind, committed: CommitOutcome = "no") =>
  new StoreError(kind, "scripted", { committed });

/** Fails with each of `failures` in turn, then returns the number of attempts. */
function script(...failures: Error[]) {
  return async (attempt: number) => {
    const next = failures[attempt - 1];
    if (next !== undefined) throw next;
    return attempt;
  };
}

async function rejection(promise: Promise<unknown>): Promise<StoreError> {
  const error = await promise.then(
    () => undefined,
    (reason) => reason,
  );
  expect(error).toBeInstanceOf(StoreError);
  return error;
}

test.each(["conflict", "too_old", "throttled", "deadline"] as const)(
  "an attempt that failed with %s is followed by another",
  async (kind) => {
    expect(await new Operation(rules).run(script(failure(kind), failure(kind)))).toBe(3);
  },
);

test("the pauses of a transaction that loses many races do not grow, so that it wins one in time", async () => {
  const lost = Array.from({ length: 40 }, () => failure("conflict"));
  const inTime = { ...rules, deadlineMs: 10_000, maxRetryDelayMs: 1_000 };
  expect(await new Operation(inTime).run(script(...lost))).toBe(41);
});

test.each(["unavailable", "too_large", "invalid", "unreadable", "fatal"] as const)(
  "%s is final",
  async (kind) => {
    const error = await rejection(new Operation(rules).run(script(failure(kind))));
    expect([error.kind, error.committed, error.details.attempts]).toEqual([kind, "no", 1]);
  },
);

test("an error of the body is rethrown unchanged, and not retried", async () => {
  const own = new RangeError("of the body");
  await expect(new Operation(rules).run(script(own))).rejects.toBe(own);
});

test("maxAttempts counts the first attempt, and the last error is thrown with label and attempts", async () => {
  const error = await rejection(
    new Operation({ ...rules, maxAttempts: 2 }).run(script(failure("conflict"), failure("conflict"))),
  );
  expect(error.kind).toBe("conflict");
  expect(error.details).toMatchObject({ label: "test", attempts: 2 });
});

test("an unknown commit result is retried for a safe body, and thrown for an unsafe one", async () => {
  const unknown = failure("commit_unknown", "maybe_settled");
  expect(await new Operation({ ...rules, onUnknown: "safe" }).run(script(unknown))).toBe(2);
  const error = await rejection(new Operation(rules).run(script(unknown)));
  expect([error.kind, error.committed]).toEqual(["commit_unknown", "maybe_settled"]);
});

test("the unknown outcome of an attempt stays unknown when a later one certainly fails", async () => {
  const failures = [failure("commit_unknown", "maybe_in_flight"), failure("commit_unknown", "maybe_settled")];
  const error = await rejection(
    new Operation({ ...rules, onUnknown: "safe" }).run(script(...failures, failure("unavailable"))),
  );
  expect([error.kind, error.committed]).toEqual(["commit_unknown", "maybe_in_flight"]);
  expect(error.details.reason).toBe("unavailable");
});

test.each([
  ["maybe_settled", false],
  ["maybe_in_flight", true],
] as const)(
  "an error of the body after a commit that is %s leaves the outcome unknown: %s",
  async (committed, isUnknown) => {
    const own = new RangeError("of the body");
    const operation = new Operation({ ...rules, onUnknown: "safe" });
    const error = await operation.run(script(failure("commit_unknown", committed), own)).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (!isUnknown) expect(error).toBe(own);
    else expect(error).toMatchObject({ kind: "commit_unknown", committed, cause: own });
  },
);

test("the deadline ends an operation whose attempt hangs, cancels the attempt, and names the last failure", async () => {
  // Long enough for the second attempt to begin on a busy machine.
  const operation = new Operation({ ...rules, deadlineMs: 2_000 });
  const second = runningAttempt(false);
  const error = await rejection(
    operation.run((attempt) => {
      if (attempt === 1) throw failure("conflict");
      operation.current = second;
      return never();
    }),
  );
  expect([error.kind, error.committed, second.cancelled]).toEqual(["deadline", "no", 1]);
  expect(error.cause).toMatchObject({ kind: "conflict" });
});

test("an operation ends at its deadline while another one with a later deadline runs", async () => {
  const stopping = new AbortController();
  const later = rejection(
    new Operation({ ...rules, deadlineMs: 600_000, signal: stopping.signal }).run(never),
  );
  const begun = performance.now();
  expect(await rejection(new Operation({ ...rules, deadlineMs: 30 }).run(never))).toMatchObject({
    kind: "deadline",
  });
  expect(performance.now() - begun).toBeGreaterThanOrEqual(29);
  stopping.abort();
  expect(await later).toMatchObject({ kind: "aborted" });
});

test("a process ends while the deadlines of its ended operations are far away", async () => {
  const module = (name: string) =>
    JSON.stringify(new URL(`../../../shared/store/${name}.ts`, import.meta.url).href);
  const program = `
    import { Deadlines } from ${module("deadlines")};
    import { Operation } from ${module("operation")};
    const own = { deadlineMs: 600_000, deadlines: new Deadlines() };
    const rules = { ...own, label: "test", onUnknown: "unsafe", maxRetryDelayMs: 1 };
    for (let i = 0; i < 2; i += 1) await new Operation(rules).run(async () => {});
    console.log("done");`;
  const { stdout } = await execute(process.execPath, ["--input-type=module", "-e", program]);
  expect(stdout).toBe("done\n");
});

test("a deadline that passes during a commit leaves the outcome unknown", async () => {
  const operation = new Operation({ ...rules, deadlineMs: 10 });
  operation.current = runningAttempt(true);
  const error = await rejection(operation.run(never));
  expect([error.kind, error.committed, error.details.reason]).toEqual([
    "commit_unknown",
    "maybe_in_flight",
    "deadline",
  ]);
});

test("a deadline beyond the range of a timer does not fire at once", async () => {
  expect(await new Operation({ ...rules, deadlineMs: 2 ** 40 }).run(script(failure("conflict")))).toBe(2);
});

test("an aborted signal prevents the first attempt", async () => {
  const begun: number[] = [];
  const operation = new Operation({ ...rules, signal: AbortSignal.abort() });
  const error = await rejection(operation.run(async (attempt) => begun.push(attempt)));
  expect([error.kind, error.committed, begun]).toEqual(["aborted", "no", []]);
});

test("an abort ends the pause between two attempts", async () => {
  const controller = new AbortController();
  const operation = new Operation({ ...rules, maxRetryDelayMs: 1_000_000, signal: controller.signal });
  const running = operation.run(async () => {
    queueMicrotask(() => controller.abort());
    throw failure("throttled");
  });
  expect((await rejection(running)).kind).toBe("aborted");
});

test("an attempt that begins after the end is cancelled at once", async () => {
  const operation = new Operation(rules);
  operation.end("closed", "the store was closed");
  const late = runningAttempt(false);
  operation.current = late;
  expect(late.cancelled).toBe(1);
  expect((await rejection(operation.run(never))).kind).toBe("closed");
});
